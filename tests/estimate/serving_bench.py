"""Hand-built models, an ideal card and ideal constants, so that times can be worked out by hand."""

from pathlib import Path

from advisor.architecture.table.model import ModelArchitecture
from advisor.architecture.table.operators import Division, Operator, OperatorKind, Part
from advisor.catalog.constants import load_calibration
from advisor.estimate.candidates import Candidates, HardwareArrays, LayoutArrays
from advisor.estimate.serving.demand import ServedModel
from advisor.foundation.quantities import Evidence
from advisor.nouns.hardware import Accelerator, Confidence, Interconnect, Node, Provenance, Segment
from advisor.nouns.layout import ParallelLayout
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.software.efficiency import Calibration, Interval
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.kernels import AttentionEfficiency, KernelEfficiency, MatmulEfficiency

DATA = Path(__file__).resolve().parents[2] / "data"
TARGETS = ("q", "k", "v", "o", "gate", "up", "down")


def matrix(
    name: str,
    rows: int,
    columns: int,
    layers: int,
    *,
    part: Part = Part.BLOCK,
    division: Division = Division.TENSOR,
    experts: int = 1,
    active: int = 1,
) -> Operator:
    """One linear layer."""
    target = name.rsplit(".", 1)[-1]
    return Operator(
        name=name,
        kind=OperatorKind.MATMUL,
        part=part,
        layers=layers,
        division=division,
        parameters=rows * columns * experts,
        active_parameters=rows * columns * active,
        in_features=rows,
        out_features=columns,
        experts=experts,
        active_experts=active,
        target=target if target in TARGETS else None,
        flops_per_token=2.0 * rows * columns * active,
    )


def attention(
    name: str,
    layers: int,
    *,
    heads: int,
    cache_heads: int,
    head_dim: int,
    window: int | None = None,
) -> Operator:
    """Grouped-query attention."""
    return Operator(
        name=name,
        kind=OperatorKind.ATTENTION,
        part=Part.BLOCK,
        layers=layers,
        division=Division.TENSOR,
        flops_per_token_per_key=4.0 * heads * head_dim,
        causal=True,
        window=window,
        heads=heads,
        cache_heads=cache_heads,
        cache_elements_per_token=2.0 * cache_heads * head_dim,
    )


def transformer(
    name: str,
    *,
    hidden: int,
    layers: int,
    heads: int,
    cache_heads: int,
    head_dim: int,
    intermediate: int,
    vocabulary: int,
    experts: int = 1,
    active: int = 1,
    windowed_layers: int = 0,
    window: int | None = None,
    tied: bool = False,
) -> ModelArchitecture:
    """A gated decoder without norms and biases (0.01 % of the parameters)."""
    division = Division.EXPERT if experts > 1 else Division.TENSOR

    def feed_forward(name: str, inputs: int, outputs: int) -> Operator:
        return matrix(
            name, inputs, outputs, layers, division=division, experts=experts, active=active
        )

    rows = [
        Operator(
            name="embedding",
            kind=OperatorKind.EMBEDDING,
            part=Part.EMBEDDING,
            layers=1,
            division=Division.TENSOR,
            parameters=vocabulary * hidden,
            active_parameters=vocabulary * hidden,
        ),
        matrix("block.attention.q", hidden, heads * head_dim, layers),
        matrix("block.attention.k", hidden, cache_heads * head_dim, layers),
        matrix("block.attention.v", hidden, cache_heads * head_dim, layers),
        matrix("block.attention.o", heads * head_dim, hidden, layers),
        attention(
            "block.attention.full",
            layers - windowed_layers,
            heads=heads,
            cache_heads=cache_heads,
            head_dim=head_dim,
        ),
        feed_forward("block.mlp.gate", hidden, intermediate),
        feed_forward("block.mlp.up", hidden, intermediate),
        feed_forward("block.mlp.down", intermediate, hidden),
    ]
    if windowed_layers:
        rows.append(
            attention(
                "block.attention.local",
                windowed_layers,
                heads=heads,
                cache_heads=cache_heads,
                head_dim=head_dim,
                window=window,
            )
        )
    head = matrix("head", hidden, vocabulary, 1, part=Part.HEAD)
    rows.append(head.model_copy(update={"parameters": 0}) if tied else head)
    return ModelArchitecture(
        name=name,
        family="test",
        source="config",
        evidence=Evidence.DERIVED,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=cache_heads,
        vocab_size=vocabulary,
        max_position_embeddings=131072,
        num_experts=experts,
        experts_per_token=active,
        tied_embeddings=tied,
        operators=tuple(rows),
    )


LLAMA_70B = transformer(
    "Llama 3.1 70B",
    hidden=8192,
    layers=80,
    heads=64,
    cache_heads=8,
    head_dim=128,
    intermediate=28672,
    vocabulary=128256,
)
LLAMA_8B = transformer(
    "Llama 3.1 8B",
    hidden=4096,
    layers=32,
    heads=32,
    cache_heads=8,
    head_dim=128,
    intermediate=14336,
    vocabulary=128256,
)
QWEN_14B = transformer(
    "Qwen3 14B",
    hidden=5120,
    layers=40,
    heads=40,
    cache_heads=8,
    head_dim=128,
    intermediate=17408,
    vocabulary=151936,
)
GPT_OSS_120B = transformer(
    "gpt-oss-120b",
    hidden=2880,
    layers=36,
    heads=64,
    cache_heads=8,
    head_dim=64,
    intermediate=2880,
    vocabulary=201088,
    experts=128,
    active=4,
    windowed_layers=18,
    window=128,
)


def served(
    model: ModelArchitecture, weight_format: str = "bf16", cache_bytes: float = 2.0
) -> ServedModel:
    """The model as an engine holds it."""
    return ServedModel.of(
        model, weight_format=WEIGHT_FORMATS[weight_format], cache_bytes=cache_bytes
    )


def card(
    *,
    memory: float = 80e9,
    bandwidth: float = 1e12,
    peak: float = 1e15,
    architecture: str = "ideal",
    link: float = 450e9,
    formats: tuple[str, ...] = ("fp32", "bf16", "fp16", "fp8"),
) -> Accelerator:
    """A card with round figures; every format at the same rate."""
    return Accelerator(
        key="ideal",
        name="Ideal card",
        vendor="none",
        architecture=architecture,
        year=2026,
        segment=Segment.DATACENTER,
        form_factor="SXM",
        memory_marketed_bytes=memory,
        memory_reported_bytes=memory,
        memory_reported_derived=False,
        memory_type="HBM",
        memory_bandwidth_bytes_per_s=bandwidth,
        peak_flops_per_s=dict.fromkeys(formats, peak),
        board_power_w=700.0,
        interconnect=Interconnect(name="link", bytes_per_s=link, domain_size=8),
        pcie_generation=5,
        compute_capability=None,
        purchase_usd=30_000.0,
        purchase_date="2026-01",
        purchase_kind="street",
        provenance={
            "default": Provenance(source="test", date="2026", confidence=Confidence.DERIVED)
        },
    )


def node(*, network: float | None = 50e9, link: float = 450e9) -> Node:
    """Eight accelerators in one link domain."""
    return Node(
        accelerators=8,
        intra_bytes_per_s=link,
        intra_domain=8,
        inter_bytes_per_s=network,
        pcie_bytes_per_s=64e9,
        vcpus_per_accelerator=16,
        host_memory_bytes=512e9,
        host_memory_bandwidth_bytes_per_s=307.2e9,
    )


def calibration(
    *, layer_s: float = 0.0, step_s: float = 0.0, latency_s: float = 0.0
) -> Calibration:
    """Constants of a perfect world: full rates, and only the overheads that are asked for."""
    perfect = MatmulEfficiency(
        overhead_s=0.0, compute=1.0, bandwidth=1.0, half_tiles=0.0, half_depth=0.0
    )
    kernels = KernelEfficiency(
        matmul={"default": perfect},
        attention=AttentionEfficiency(overhead_s=0.0, forward=1.0, backward=1.0),
        elementwise_bandwidth=1.0,
        evidence=Evidence.CALIBRATED,
        source="test",
    )
    near = Interval(low=0.8, high=1.25, evidence=Evidence.CALIBRATED, source="test")
    far = Interval(low=0.5, high=2.0, evidence=Evidence.ASSUMED, source="test")
    names = ["serving_time", "serving_time_routed", "serving_first_token", "serving_memory"]
    names.append("serving_first_token_tail")
    # The rest of the constants has no part in serving.
    shipped = load_calibration(DATA / "calibration.yaml")
    network = {
        "intra_bandwidth": 1.0,
        "inter_bandwidth": 1.0,
        "intra_latency_s": latency_s,
        "inter_latency_s": latency_s,
        "rank_gain": 0.0,
    }
    memory = {
        "context_bytes": {"low": 0.3e9, "expected": 0.45e9, "high": 0.6e9},
        "workspace_bytes": 0.0,
        "communication_bytes": 0.4e9,
    }
    return shipped.model_copy(
        update={
            "kernels": {"ideal": kernels, "default": kernels},
            "relatives": {},
            "network": shipped.network.model_copy(update=network),
            "serving": ServingFacts(
                step_overhead_s=step_s,
                layer_overhead_s=layer_s,
                memory_fraction=0.9,
                batched_tokens=8192,
                graph_bytes=0.5e9,
                source="test",
            ),
            "memory": shipped.memory.model_copy(update=memory),
            "intervals": {
                **dict.fromkeys(names, near),
                **{f"{name}_unmeasured": far for name in names},
            },
        }
    )


def candidates(
    layout: ParallelLayout,
    *,
    accelerator: Accelerator | None = None,
    machine: Node | None = None,
    constants: Calibration | None = None,
    compute: str = "bf16",
) -> Candidates:
    """One configuration as arrays."""
    accelerator = accelerator or card()
    constants = constants or calibration()
    kernels, _ = constants.kernels_for(accelerator)
    return Candidates(
        layout=LayoutArrays.of(layout),
        hardware=HardwareArrays.of(accelerator, machine or node(), kernels, compute=compute),
    )
