"""Sources of formulas and constants: one registry, cited by key."""

from __future__ import annotations

from advisor.foundation.noun import Noun


class Reference(Noun):
    """A published source of a formula, a constant or a fact."""

    key: str
    title: str
    authors: str
    year: int
    locator: str
    """ArXiv number, DOI or address, with section, equation or table if needed."""


_ALL = (
    Reference(
        key="korthikanti2022",
        title="Reducing Activation Recomputation in Large Transformer Models",
        authors="V. Korthikanti et al.",
        year=2022,
        locator="arXiv:2205.05198, section 4, equations 1-6",
    ),
    Reference(
        key="narayanan2021",
        title="Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
        authors="D. Narayanan et al.",
        year=2021,
        locator="arXiv:2104.04473, sections 2-3 (pipeline bubble), appendix (FLOPs)",
    ),
    Reference(
        key="rajbhandari2020",
        title="ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
        authors="S. Rajbhandari, J. Rasley, O. Ruwase, Y. He",
        year=2020,
        locator="arXiv:1910.02054, section 5 and figure 1",
    ),
    Reference(
        key="ren2021",
        title="ZeRO-Offload: Democratizing Billion-Scale Model Training",
        authors="J. Ren, S. Rajbhandari, R. Y. Aminabadi, O. Ruwase and others",
        year=2021,
        locator="arXiv:2101.06840, sections 4 and 5",
    ),
    Reference(
        key="mohan2021",
        title="Analyzing and Mitigating Data Stalls in DNN Training",
        authors="J. Mohan, A. Phanishayee, A. Raniwala, V. Chidambaram",
        year=2021,
        locator="arXiv:2007.06775, section 3",
    ),
    Reference(
        key="dao2023",
        title="FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
        authors="T. Dao",
        year=2023,
        locator="arXiv:2307.08691, section 4 (FLOPs convention and measured rates)",
    ),
    Reference(
        key="kaplan2020",
        title="Scaling Laws for Neural Language Models",
        authors="J. Kaplan et al.",
        year=2020,
        locator="arXiv:2001.08361, section 2.1 (C = 6 N D)",
    ),
    Reference(
        key="williams2009",
        title="Roofline: An Insightful Visual Performance Model for Multicore Architectures",
        authors="S. Williams, A. Waterman, D. Patterson",
        year=2009,
        locator="doi:10.1145/1498765.1498785",
    ),
    Reference(
        key="kwon2023",
        title="Efficient Memory Management for Large Language Model Serving with PagedAttention",
        authors="W. Kwon et al.",
        year=2023,
        locator="arXiv:2309.06180",
    ),
    Reference(
        key="pope2022",
        title="Efficiently Scaling Transformer Inference",
        authors="R. Pope et al.",
        year=2022,
        locator="arXiv:2211.05102, section 3",
    ),
    Reference(
        key="thakur2005",
        title="Optimization of Collective Communication Operations in MPICH",
        authors="R. Thakur, R. Rabenseifner, W. Gropp",
        year=2005,
        locator="doi:10.1177/1094342005051521 (alpha-beta cost of ring collectives)",
    ),
    Reference(
        key="zhao2023",
        title="PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel",
        authors="Y. Zhao et al.",
        year=2023,
        locator="arXiv:2304.11277, sections 3-4",
    ),
    Reference(
        key="llamacpp2026",
        title="llama.cpp: splitting layers and experts between card and host (-ngl, --n-cpu-moe)",
        authors="G. Gerganov and others",
        year=2026,
        locator="github ggml-org/llama.cpp, tools/server/README.md",
    ),
    Reference(
        key="aiconfigurator2026",
        title="aiconfigurator-core 0.12.0, measured kernel tables (Apache-2.0)",
        authors="NVIDIA Corporation and affiliates",
        year=2026,
        locator="github ai-dynamo/aiconfigurator@095f58a; fits by this project's reference data",
    ),
    Reference(
        key="daly2006",
        title="A higher order estimate of the optimum checkpoint interval for restart dumps",
        authors="J. Daly",
        year=2006,
        locator="doi:10.1016/j.future.2004.11.016",
    ),
    Reference(
        key="micikevicius2018",
        title="Mixed Precision Training",
        authors="P. Micikevicius et al.",
        year=2018,
        locator="arXiv:1710.03740, sections 3 and 4",
    ),
    Reference(
        key="dettmers2023",
        title="QLoRA: Efficient Finetuning of Quantized LLMs",
        authors="T. Dettmers, A. Pagnoni, A. Holtzman, L. Zettlemoyer",
        year=2023,
        locator="arXiv:2305.14314, sections 3 and 4",
    ),
    Reference(
        key="mccandlish2018",
        title="An Empirical Model of Large-Batch Training",
        authors="S. McCandlish, J. Kaplan, D. Amodei, OpenAI Dota Team",
        year=2018,
        locator="arXiv:1812.06162, section 2",
    ),
    Reference(
        key="patterson2021",
        title="Carbon Emissions and Large Neural Network Training",
        authors="D. Patterson et al.",
        year=2021,
        locator="arXiv:2104.10350, section 2",
    ),
    Reference(
        key="llama3",
        title="The Llama 3 Herd of Models",
        authors="Llama team, Meta AI",
        year=2024,
        locator="arXiv:2407.21783, section 3.3, table 5 (419 unexpected interruptions in 54 days)",
    ),
    Reference(
        key="hoefler2010",
        title="Characterizing the Influence of System Noise on Large-Scale Applications by "
        "Simulation",
        authors="Hoefler et al.",
        year=2010,
        locator="SC 2010, doi:10.1109/SC.2010.12",
    ),
    Reference(
        key="jiang2024",
        title="MegaScale: Scaling Large Language Model Training to More Than 10,000 GPUs",
        authors="Jiang et al.",
        year=2024,
        locator="arXiv:2402.15627, section 6.3 (slow hosts); Lin et al. 2025, arXiv:2505.05713, "
        "section 4.1 (10.4 % of hours lost to stragglers)",
    ),
    Reference(
        key="agrawal2024",
        title="Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve",
        authors="A. Agrawal et al.",
        year=2024,
        locator="arXiv:2403.02310, section 4 (chunked prefill in mixed batches)",
    ),
)

REFERENCES: dict[str, Reference] = {reference.key: reference for reference in _ALL}
"""All references by key."""
