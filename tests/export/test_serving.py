"""Files that serve: each parses, says its plan, and names options and values of its release."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gpuhunt
import kubernetes_validate
import pytest
import yaml

import advisor
from advisor.errors import InputError
from advisor.export.hosts.orders import cluster_names
from tests.cases import serve
from tests.export.read_back import Server, servers
from tests.export.stubs import Stubs

DOCUMENTED = yaml.safe_load(
    (Path(__file__).parent / "documented_options.yaml").read_text(encoding="utf-8")
)
KUBERNETES = "1.34"
MODELS = (
    *("llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-r1"),
    *("whisper-large-v3", "bert-base", "sdxl-unet"),
)
CARDS = ("h100-sxm", "mi300x", "gaudi3", "tpu-v6e", "rtx-4090", "apple-m3-ultra")
SERVED = {
    "h100-sxm": {*MODELS},
    "mi300x": {*MODELS},
    "gaudi3": {"llama-3.1-8b", "llama-3.1-70b", "gpt-oss-120b", "deepseek-r1"},
    "tpu-v6e": {"llama-3.1-8b", "llama-3.1-70b"},
    "rtx-4090": {*MODELS},
    "apple-m3-ultra": {*MODELS},
}
"""Models for which a file exists on a card, from tools.yaml and its sources. DeepSeek-R1 runs in
four bits on one M3 Ultra of 512 GB (geerlingguy/ai-benchmarks at bdf9441, README)."""
NGRAM = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'
"""docs.vllm.ai, N-Gram Speculation."""
FORMATS = ("shell", "slurm", "kubernetes", "compose", "skypilot", "dstack")
INSTEAD = {  # named by the refusal, from the documents of the tools
    ("sdxl-unet", "gaudi3"): "Optimum Habana",
    ("bert-base", "tpu-v6e"): "JAX",
    (
        "deepseek-r1",
        "tpu-v6e",
    ): "Ray Serve LLM",  # docs.ray.io, TPU serving: slices of several hosts
}


def case_of(model: str, card: str, count: int) -> dict[str, Any]:
    # At the speed of a reader, a Mac serves as many bits as its memory holds.
    return serve(model, card, count, concurrency=12, limits={"max_tpot_ms": 200})


@cache
def plan(model: str, card: str) -> tuple[dict[str, Any], advisor.Estimate]:
    """The smallest number of cards that holds a model in 8 bits or more, and the estimate."""
    for count in (1, 2, 4, 8, 16, 32):
        case = case_of(model, card, count)
        found = advisor.estimate(case)
        wide = found.precision not in ("w4a16", "nvfp4", "q4_k_m", "iq4_xs")
        if found.memory.fits and wide and not hosted(found):
            return case, found
    return case, found


def hosted(found: advisor.Estimate) -> bool:
    return found.layout.gpu_layers is not None or found.layout.cpu_expert_layers > 0


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


def own_format(model: str, card: str) -> str:
    """The format of the program that a shell script starts."""
    if model == "bert-base":
        return "vllm" if card == "mi300x" else "tei"
    if model == "sdxl-unet":
        return "diffusers"
    if model == "whisper-large-v3" and card.startswith("apple"):
        return "whisper-cpp"
    return "llama-cpp" if card.startswith("apple") else "vllm"


def expectation(text: str) -> str:
    """The line of a file's head that says what to expect."""
    found = re.search(r"^# Expect .*$", text, re.MULTILINE)
    assert found, text
    return found[0]


def as_read(model: str, card: str, found: list[Server], count: int) -> dict[str, Any]:
    """The case that a file's own options state."""
    first = found[0]
    assert all(
        (each.tensor, each.pipeline, each.copies) == (first.tensor, first.pipeline, first.copies)
        for each in found
    )
    data = count // (first.tensor * first.pipeline)
    workload: dict[str, Any] = {"kind": "serving", "concurrency": 12, "engine": first.program}
    if first.weights:
        workload["weight_format"] = first.weights
    if first.cache:
        workload["kv_cache_format"] = first.cache
    layout = {"tensor": first.tensor, "pipeline": first.pipeline, "data": data}
    layout["expert"] = first.copies if first.experts else 1
    hardware = {"accelerator": card, "count": count}
    return {
        "model": {"preset": model},
        "workload": workload,
        "hardware": hardware,
        "layout": layout,
    }


def check_documented(server: Server) -> None:
    known = DOCUMENTED[server.program]
    assert not set(server.options) - set(known["options"]), server
    for option, values in known.get("values", {}).items():
        if option in server.options:
            assert server.options[option] in values, (server.program, option)


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("model", MODELS)
def test_a_pair_has_a_file_that_says_its_plan_or_a_refusal_that_says_what_works(
    model: str, card: str, to: str, stubs: Stubs
) -> None:
    unserved = None
    try:
        case, answer = plan(model, card)
    except InputError as error:  # no software serves the model's weights there
        unserved = error
    if unserved is not None:
        assert model not in SERVED[card]
        assert unserved.remedy
        return
    name = own_format(model, card) if to == "shell" else to
    served = model in SERVED[card] and answer.memory.fits and not hosted(answer)
    try:
        text = advisor.export(case, name, answer=answer).content
    except InputError as error:
        refused = error
    else:
        check_file(model, card, name, text, stubs)
        return
    # A script is the way that works wherever a program does.
    assert not served or (to != "shell" and card != "h100-sxm") or only_joined(model, to), refused
    assert refused.remedy
    assert INSTEAD.get((model, card), "") in str(refused)


def check_file(model: str, card: str, name: str, text: str, stubs: Stubs) -> None:
    """Every option is the release's, and the file's own options make the estimate of its head."""
    assert model in SERVED[card]
    found = servers(text, name, stubs)
    assert found
    for server in found:
        check_documented(server)
    # 1,024 and 256 tokens; the positions of Whisper's decoder and of BERT
    length = {"whisper-large-v3": 448, "bert-base": 512}.get(model, 1280)
    assert {server.context for server in found} <= {length, None}
    assert sum(each.sequences * each.copies for each in found) * nodes(text, name) >= 12 or (
        found[0].program in ("ollama", "whisper-cpp")
    )
    read = json.dumps(as_read(model, card, found, plan(model, card)[1].count))
    rewritten = advisor.export(json.loads(read), name, answer=estimated(read)).content
    assert figures(expectation(rewritten)) == figures(expectation(text))


@cache
def estimated(read: str) -> advisor.Estimate:
    """Estimate what a file's options state: six files of one plan mostly state the same."""
    return advisor.estimate(json.loads(read))


def only_joined(model: str, to: str) -> bool:
    """A replica of a dstack service runs on one machine, and DeepSeek-R1 needs two."""
    return (model, to) == ("deepseek-r1", "dstack")


def figures(line: str) -> list[str]:
    """Memory and time of a head; not the price, which may be another machine's."""
    return line.split("; ")[:2]


def nodes(text: str, to: str) -> int:
    found = re.search(r"# (\d+) machines", text)
    apart = to in {"kubernetes", "skypilot", "dstack"}
    return int(found[1]) if found and not apart else 1


def manifests(case: dict[str, Any], **further: Any) -> Iterator[dict[str, Any]]:
    text = advisor.export(case, "kubernetes", **further).content
    yield from yaml.safe_load_all(text)


@pytest.mark.parametrize(
    ("model", "card"),
    [("llama-3.1-8b", "h100-sxm"), ("gpt-oss-120b", "mi300x"), ("bert-base", "l4")],
)
def test_kubernetes_itself_would_take_the_manifests(model: str, card: str) -> None:
    kinds = []
    for manifest in manifests(case_of(model, card, 1)):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        kinds.append(manifest["kind"])
    assert kinds == ["Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"]


def test_kubernetes_places_probes_scales_and_keeps_weights() -> None:
    deployment, service, budget, scaler = manifests(case_of("llama-3.1-8b", "h100-sxm", 2))
    assert deployment["spec"]["replicas"] * cards(deployment) == 2
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    # 16 GB of weights at 100 MB/s, and five minutes
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 160 + 300
    [claim] = [volume["ephemeral"] for volume in pod["volumes"] if "ephemeral" in volume]
    size = claim["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]
    assert int(size.removesuffix("G")) > 16
    assert service["spec"]["selector"] == budget["spec"]["selector"]["matchLabels"]
    [metric] = scaler["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "vllm_num_requests_waiting"
    assert scaler["spec"]["maxReplicas"] > scaler["spec"]["minReplicas"]


def cards(deployment: dict[str, Any]) -> int:
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    found: int = container["resources"]["limits"]["nvidia.com/gpu"]
    return found


def test_a_server_over_machines_is_a_group_with_one_that_answers() -> None:
    case = {**case_of("deepseek-r1", "h100-sxm", 16), "layout": {"tensor": 8, "pipeline": 2}}
    group, service, *_ = manifests(case)
    template = group["spec"]["leaderWorkerTemplate"]
    assert (group["kind"], template["size"]) == ("LeaderWorkerSet", 2)
    assert "add its RDMA resource" in advisor.export(case, "kubernetes").content
    leader, worker = (
        template[name]["spec"]["containers"][0] for name in ("leaderTemplate", "workerTemplate")
    )
    assert "readinessProbe" in leader
    assert "readinessProbe" not in worker
    assert service["spec"]["selector"]["role"] == "leader"


def run_with(stubs: Stubs, text: str, rank: str) -> list[str]:
    lines = text.replace('"${NODE_RANK:?number', f'"${{NODE_RANK:={rank}}}" "${{X:-number')
    return stubs.run(f"NODE_RANK={rank}\n{lines}").calls[-1]


@pytest.mark.parametrize("to", ["vllm", "sglang"])
def test_machines_of_one_server_meet_at_the_first(to: str, stubs: Stubs) -> None:
    case = {**case_of("deepseek-r1", "h100-sxm", 16), "layout": {"tensor": 8, "pipeline": 2}}
    text = advisor.export(case, to).content
    first, second = (run_with(stubs, text, rank) for rank in ("0", "1"))
    assert first[first.index("--nnodes") + 1] == "2"
    assert second[second.index("--node-rank") + 1] == "1"
    assert any("node-0" in word for word in first)
    assert ("--headless" in second, "--headless" in first) == (to == "vllm", False)


def test_experts_over_data_parallel_ranks_serve_together(stubs: Stubs) -> None:
    case = {**case_of("deepseek-r1", "h200-sxm", 16), "layout": {"data": 16, "expert": 16}}
    text = advisor.export(case, "vllm").content
    second = run_with(stubs, text, "1")
    assert "--enable-expert-parallel" in second
    assert second[second.index("--data-parallel-size") + 1] == "16"
    assert second[second.index("--data-parallel-size-local") + 1] == "8"
    assert second[second.index("--data-parallel-start-rank") + 1] == "8"


def test_copies_of_a_mixture_that_share_no_experts_stay_apart(stubs: Stubs) -> None:
    """vLLM would divide the experts over the copies of one server."""
    case = {**case_of("gpt-oss-120b", "h100-sxm", 4), "layout": {"data": 4}}
    case["limits"] = {"owned": [{"accelerator": "h100-sxm", "count": 4}]}  # in one machine
    found = servers(advisor.export(case, "vllm").content, "vllm", stubs)
    assert [server.options["--data-parallel-size"] for server in found] == ["1"] * 4
    assert [
        server.options["--port"] for server in sorted(found, key=lambda s: s.options["--port"])
    ] == ["8000", "8001", "8002", "8003"]


def test_nf4_is_made_by_the_plugin_that_holds_bitsandbytes(stubs: Stubs) -> None:
    case = case_of("llama-3.1-8b", "rtx-4090", 1)
    case["workload"]["weight_format"] = "nf4"
    text = advisor.export(case, "vllm").content
    assert "pip install vllm==0.31.0 vllm-bnb-plugin==0.0.3" in text
    [server] = servers(text, "vllm", stubs)
    assert server.options["--quantization"] == "bitsandbytes"
    on_amd = {**case, "hardware": {"accelerator": "mi300x", "count": 1}}
    with pytest.raises(InputError, match="nf4"):
        advisor.export(on_amd, "vllm")


def test_a_card_without_bf16_is_told_to_compute_in_fp16(stubs: Stubs) -> None:
    case = case_of("llama-3.1-8b", "t4", 1)
    case["workload"] |= {"weight_format": "w4a16"}
    text = advisor.export(case, "vllm", checkpoint="org/awq").content
    [server] = servers(text, "vllm", stubs)
    assert server.options["--dtype"] == "float16"


def test_ollama_is_told_the_length_of_one_request_and_the_number_at_once(stubs: Stubs) -> None:
    case = case_of("llama-3.1-8b", "rtx-4090", 1)
    text = advisor.export(case, "ollama", checkpoint="org/model-GGUF").content
    told = dict(re.findall(r"^export (\w+)=(\S+)$", text, re.MULTILINE))
    known = DOCUMENTED["ollama"]
    assert not set(told) - {*known["options"], "CUDA_VISIBLE_DEVICES"}
    assert told["OLLAMA_CONTEXT_LENGTH"] == "1280"
    assert told["OLLAMA_NUM_PARALLEL"] == "12"
    assert told["OLLAMA_KV_CACHE_TYPE"] in known["values"]["OLLAMA_KV_CACHE_TYPE"]
    model_file = stubs.run(text).texts["Modelfile"]
    assert "FROM hf.co/org/model-GGUF:Q8_0\n" in model_file
    parameters = re.findall(r"^PARAMETER (\w+)", model_file, re.MULTILINE)
    assert set(parameters) == set(known["keys"])


def test_llama_cpp_counts_the_tokens_of_all_slots(stubs: Stubs) -> None:
    case = case_of("llama-3.1-70b", "rtx-4090", 3)
    case["layout"] = {"pipeline": 3}
    case["workload"]["weight_format"] = "q4_k_m"
    text = advisor.export(case, "llama-cpp", checkpoint="org/model-GGUF").content
    [server] = servers(text, "llama-cpp", stubs)
    assert server.options["-c"] == str(12 * 1280)
    assert server.options["-hf"] == "org/model-GGUF:Q4_K_M"
    assert (server.options["-ngl"], server.options["-sm"]) == ("all", "layer")


def test_what_a_program_lacks_is_estimated_again_and_said() -> None:
    case = case_of("llama-3.1-8b", "h100-sxm", 2)
    case["workload"] |= {"weight_format": "fp8", "kv_cache_format": "fp8"}
    case["layout"] = {"tensor": 2}
    text = advisor.export(case, "llama-cpp").content
    assert "Weights are q8_0 instead of fp8" in text
    assert "Keys and values are bf16 instead of fp8" in text
    assert "2 stages instead of 2-way tensor parallelism" in text
    case["workload"] |= {"weight_format": "q8_0", "kv_cache_format": "bf16"}
    case["layout"] = {"pipeline": 2}
    assert expectation(text) == expectation(advisor.export(case, "llama-cpp").content)


def every_key(content: object) -> Iterator[str]:
    if isinstance(content, dict):
        for name, value in content.items():
            yield name
            yield from every_key(value)
    elif isinstance(content, list):
        for value in content:
            yield from every_key(value)


@pytest.mark.parametrize("to", ["compose", "skypilot", "dstack"])
def test_keys_are_those_of_the_schema(to: str) -> None:
    content = yaml.safe_load(advisor.export(case_of("llama-3.1-8b", "h100-sxm", 1), to).content)
    named = {"volumes": "weights", "services": "server-0", "environment": "", "envs": ""}
    for section, name in named.items():
        if isinstance(content.get(section), dict):
            inside = content.pop(section)
            content[section] = inside.get(name, {})
    found = set(every_key(content)) - {"HF_TOKEN"}
    assert not found - set(DOCUMENTED[to]["keys"])


def test_names_for_dstack_are_those_of_gpuhunt() -> None:
    """A name that stands for several sizes says which."""
    sizes: dict[str, set[int]] = {}
    for card in (*gpuhunt.KNOWN_NVIDIA_GPUS, *gpuhunt.KNOWN_AMD_GPUS):
        sizes.setdefault(card.name, set()).add(round(card.memory))
    for key, names in cluster_names().names.items():
        if names.dstack:
            assert names.dstack in sizes, key
            several = len(sizes[names.dstack]) > 1
            assert (names.dstack_memory_gb in sizes[names.dstack]) is several, key


def test_skypilot_serves_on_the_cloud_of_the_price_with_room_for_the_weights() -> None:
    case = {"model": {"preset": "llama-3.1-70b"}, "workload": {"kind": "serving"}}
    text = advisor.export(case, "skypilot").content
    content = yaml.safe_load(text)
    clouds = yaml.safe_load(
        (Path(__file__).parents[2] / "data" / "cluster_names.yaml").read_text(encoding="utf-8")
    )["clouds"]
    provider = re.search(r"Planned at ([^,]+),", text)
    assert provider
    assert content["resources"]["infra"] == clouds[provider[1]]["skypilot"]
    assert content["resources"]["disk_size"] > 141  # 70.6 billion parameters of two bytes
    assert content["service"]["readiness_probe"]["path"] == "/health"


def test_without_a_card_the_best_plan_that_the_format_can_start_is_written() -> None:
    case = {"model": {"preset": "llama-3.1-8b"}, "workload": {"kind": "serving"}}
    for to in ("tensorrt-llm", "dstack"):
        text = advisor.export(case, to).content
        assert "Expect " in text
    only = {**case, "limits": {"owned": [{"accelerator": "gaudi3", "count": 8}]}}
    assert "habana.ai/gaudi: " in advisor.export(only, "kubernetes").content
    only = {**case, "limits": {"owned": [{"accelerator": "inferentia2", "count": 6}]}}
    assert "aws.amazon.com/neuron: " in advisor.export(only, "kubernetes").content
    only["model"] = {"preset": "gemma-3-12b"}  # not among the families of AWS's plugin
    with pytest.raises(InputError, match=r"optimum-cli neuron .*--allow_non_cached_model\.$"):
        advisor.export(only, "kubernetes")


def test_a_cluster_starts_the_engine_that_the_case_names(stubs: Stubs) -> None:
    case = case_of("llama-3.1-8b", "h100-sxm", 1)
    case["workload"]["engine"] = "sglang"
    text = advisor.export(case, "slurm").content
    [server] = servers(text, "slurm", stubs)
    assert server.program == "sglang"
    assert expectation(text) == expectation(advisor.export(case, "sglang").content)
    case["workload"]["engine"] = "exllamav2"
    with pytest.raises(InputError, match=r"no file starts ExLlamaV2 .* --to vllm"):
        advisor.export(case, "kubernetes")


def test_sglang_needs_room_for_the_weights_of_which_it_makes_fp8() -> None:
    """Its fp8 layers hold params_dtype until all are loaded (0.5.21, quantization/fp8.py): 141 GB
    of Llama 3.3 70B do not lie on one H200 of 141 GB; of two, each holds half."""
    # The table names published fp8 weights of Llama 3.3 alone.
    case = serve("llama-3.1-70b", "h200-sxm", 1, weight_format="fp8")
    with pytest.raises(InputError, match="16-bit weights whole"):
        advisor.export(case, "sglang")
    assert "--quantization fp8" in advisor.export(case, "vllm").content
    case |= {"hardware": {"accelerator": "h200-sxm", "count": 2}, "layout": {"tensor": 2}}
    assert "--quantization fp8" in advisor.export(case, "sglang").content
    original = serve("llama-3.3-70b", "h200-sxm", 1, weight_format="fp8")
    assert "70B-Instruct-FP8-dynamic" in advisor.export(original, "sglang").content


def test_the_file_names_the_release_whose_options_it_uses() -> None:
    text = advisor.export(case_of("llama-3.1-8b", "h100-sxm", 1), "vllm").content
    assert "Written for vLLM 0.31.0; its options were read on 2026-11-22." in text
    assert "pip install vllm==0.31.0" in text


def test_llama_cpp_states_the_shares_of_unlike_cards(stubs: Stubs) -> None:
    case = case_of("llama-3.3-70b", "rtx-3090+rtx-3060-12gb", 1)
    case["workload"] |= {"weight_format": "q3_k_m", "concurrency": 1}
    text = advisor.export(case, "llama-cpp", checkpoint="org/model-GGUF").content
    [server] = servers(text, "llama-cpp", stubs)
    # 24 GB of the first card first: 0.93 x 24 GiB of 32.2 GiB.
    assert (server.options["-sm"], server.options["-ts"]) == ("layer", "69,31")
    for other in ("kubernetes", "slurm", "ollama"):
        with pytest.raises(advisor.InputError, match="different kinds"):
            advisor.export(case, other)
    assert "'0'\n            - '1'" in advisor.export(case, "compose").content.replace('"', "'")


@pytest.mark.parametrize(
    ("to", "options"),
    [
        ("vllm", {"--max-num-batched-tokens": "4096", "--speculative-config": NGRAM}),
        (
            "sglang",
            {
                "--chunked-prefill-size": "4096",
                "--speculative-algorithm": "NGRAM",
                "--speculative-num-draft-tokens": "3",
            },
        ),
        (
            "llama-cpp",
            {
                "-b": "4096",
                "-ub": "4096",
                "--spec-type": "ngram-simple",
                "--spec-draft-n-max": "3",
                "--spec-ngram-simple-size-m": "3",
            },
        ),
    ],
)
def test_techniques_that_a_case_states_are_in_its_file(
    to: str, options: dict[str, str], stubs: Stubs
) -> None:
    case = case_of("llama-3.1-8b", "h100-sxm", 1)
    case["workload"] |= {"speculation": "ngram", "draft_tokens": 3, "step_tokens": 4096}
    text = advisor.export(case, to).content
    [server] = servers(text, to, stubs)
    check_documented(server)
    assert options.items() <= server.options.items()
    assert "Nothing is drafted" not in text


def test_llama_cpp_drafts_with_the_models_own_heads_and_with_no_others(stubs: Stubs) -> None:
    case = case_of("qwen3.6-27b", "rtx-5090", 1)
    case["workload"] |= {"speculation": "mtp"}
    [server] = servers(advisor.export(case, "llama-cpp").content, "llama-cpp", stubs)
    check_documented(server)
    assert {"--spec-type": "draft-mtp", "--spec-draft-n-max": "2"}.items() <= server.options.items()
    # Heads of EAGLE-3 have to be converted for it first.
    case = case_of("llama-3.3-70b", "h100-sxm", 1)
    case["workload"] |= {"speculation": "eagle3"}
    with pytest.raises(advisor.InputError, match="no speculative decoding by EAGLE-3"):
        advisor.export(case, "llama-cpp")


@pytest.mark.parametrize(
    ("to", "option"),
    [("vllm", "--max-loras"), ("sglang", "--max-loras-per-batch"), ("tensorrt-llm", None)],
)
def test_adapters_that_a_case_states_are_in_its_file(
    to: str, option: str | None, stubs: Stubs
) -> None:
    case = case_of("llama-3.1-8b", "h100-sxm", 1)
    case["workload"] |= {"adapters": 8, "adapter_rank": 24}
    text = advisor.export(case, to).content
    [server] = servers(text, to, stubs)
    check_documented(server)
    assert ("No LoRA adapters: no file asks TensorRT-LLM for them." in text) is (option is None)
    if option is not None:
        assert {option: "8", "--max-lora-rank": "32"}.items() <= server.options.items()
        assert "--enable-lora" in server.options


@pytest.mark.parametrize(
    ("to", "option"),
    [
        ("vllm", "--limit-mm-per-prompt"),
        ("sglang", "--limit-mm-data-per-request"),
        ("llama-cpp", None),
    ],
)
def test_images_that_a_case_states_are_in_its_file(
    to: str, option: str | None, stubs: Stubs
) -> None:
    case = case_of("qwen3-vl-8b", "h100-sxm", 1)
    case["workload"]["images_per_request"] = 4
    text = advisor.export(case, to).content
    [server] = servers(text, to, stubs)
    check_documented(server)
    assert ("add the vision tower" in text) is (option is None)
    if option is not None:
        assert json.loads(server.options[option]) == {"image": 4}


def test_drafts_of_another_checkpoint_are_left_out_with_their_gain() -> None:
    case = case_of("mistral-7b-v0.3", "h100-sxm", 1)
    plain = expectation(advisor.export(case, "vllm").content)
    case["workload"]["speculation"] = "eagle3"
    text = advisor.export(case, "vllm").content
    assert "Nothing is drafted with EAGLE-3 heads: the hub has none for this model" in text
    assert "--speculative-config" not in text
    assert expectation(text) == plain


def test_published_heads_are_named_in_the_command(stubs: Stubs) -> None:
    """vllm-project/speculators, README.md @007df2d; sgl-project/SpecForge, specbundle.md @232b276;
    keys of the options: documented for `vllm serve` and SGLang's `server_args.py`."""
    case = case_of("llama-3.3-70b", "h100-sxm", 4)
    case["workload"]["speculation"] = "eagle3"
    [vllm] = servers(advisor.export(case, "vllm").content, "vllm", stubs)
    drafts = json.loads(vllm.options["--speculative-config"])
    assert drafts["method"] == "eagle3"
    assert drafts["model"] == "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3"
    [sglang] = servers(advisor.export(case, "sglang").content, "sglang", stubs)
    check_documented(sglang)
    assert sglang.options["--speculative-algorithm"] == "EAGLE3"
    path = "lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge"
    assert sglang.options["--speculative-draft-model-path"] == path


def test_heads_that_the_model_lacks_draft_nothing() -> None:
    """Only checkpoints with these layers start so: vllm-project/vllm, pull 12755 (of the distilled
    models of DeepSeek-R1, on 2025-02-27). The config.json of Llama 3.1 names none."""
    case = case_of("llama-3.1-8b", "h100-sxm", 1)
    plain = expectation(advisor.export(case, "vllm").content)
    case["workload"]["speculation"] = "mtp"
    text = advisor.export(case, "vllm").content
    assert "--speculative-config" not in text
    assert "names no layers for it" in text
    assert expectation(text) == plain


def test_heads_of_the_model_draft_under_sglang(stubs: Stubs) -> None:
    """docs.sglang.io, Multi Token Prediction: steps, top-k 1 and one draft token more."""
    case = case_of("deepseek-r1", "h200-sxm", 8)
    case["workload"] |= {"speculation": "mtp", "draft_tokens": 1, "engine": "sglang"}
    [server] = servers(advisor.export(case, "sglang").content, "sglang", stubs)
    check_documented(server)
    names = ("algorithm", "num-steps", "eagle-topk", "num-draft-tokens")
    found = [server.options[f"--speculative-{name}"] for name in names]
    assert found == ["NEXTN", "1", "1", "2"]


def test_an_engine_without_adapters_is_refused() -> None:
    case = case_of("llama-3.1-8b", "h100-sxm", 1)
    case["workload"] |= {"adapters": 4, "engine": "llama-cpp"}
    with pytest.raises(InputError, match="serves no adapters beside a model"):
        advisor.estimate(case)
    with pytest.raises(InputError, match="serves no adapters beside a model"):
        advisor.export(case, "llama-cpp")


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"])
def test_the_weights_that_were_named_are_served(name: str) -> None:
    """An Instruct model has the shape of its base, and other weights."""
    case = serve(name, "l40s", 1)
    text = advisor.export(case, "vllm").content
    assert "vllm serve meta-llama/Llama-3.1-8B-Instruct" in text
    base = advisor.export(serve("llama-3.1-8b", "l40s", 1), "vllm").content
    assert "vllm serve meta-llama/Meta-Llama-3.1-8B \\" in base
    assert "For chat: --model meta-llama/Llama-3.1-8B-Instruct." in base


# 1_Pooling/config.json beside the weights: BGE takes the first token, all-MiniLM the mean. BERT has
# no such file, and a reranker has a classifier.
@pytest.mark.parametrize(
    ("model", "stated"),
    [
        ("bge-m3", False),
        ("all-minilm-l6-v2", False),
        ("bge-reranker-v2-m3", False),
        ("bert-base", True),
    ],
)
def test_only_base_models_are_told_how_to_pool(model: str, stated: bool) -> None:
    text = advisor.export(serve(model, "rtx-4090", 1), "tei").content
    assert ("--pooling" in text) is stated
    assert " for a batch; " in expectation(text)


# Classes of sglang 0.5.21 (EntryClass of bert.py and roberta.py) and vllm 0.31.0 (registry.py).
@pytest.mark.parametrize(
    ("to", "model", "loads"),
    [
        ("sglang", "bert-large", False),
        ("sglang", "roberta-base", False),
        ("sglang", "bge-m3", True),
        ("sglang", "bge-reranker-v2-m3", True),
        ("vllm", "bert-large", True),
        ("vllm", "roberta-base", True),
        ("vllm", "xlm-roberta-base", False),
    ],
)
def test_weights_that_predict_masked_tokens_go_to_programs_with_their_class(
    to: str, model: str, loads: bool
) -> None:
    case = serve(model, "rtx-4090", 1)
    if loads:
        assert advisor.export(case, to).content
        return
    with pytest.raises(InputError, match="loads no weights that predict masked tokens") as caught:
        advisor.export(case, to)
    assert "tei" in caught.value.allowed
    # The reader's own weights may be of another class.
    assert advisor.export(case, to, checkpoint="BAAI/bge-large-en-v1.5").content


def test_a_card_without_a_number_is_planned_as_recommended() -> None:
    """One card answers 2.4 of the 5 requests/s: its file would start an overloaded server."""
    case = serve("llama-3.1-70b", requests_per_s=5)
    case["workload"].pop("concurrency", None)
    best = advisor.recommend({**case, "limits": {"accelerators": ["h100-sxm"]}}).plans[0].estimate
    text = advisor.export({**case, "hardware": {"accelerator": "h100-sxm"}}, "vllm").content
    assert best.count > 1
    assert f"on {best.count}x NVIDIA H100" in text


def test_a_file_says_how_long_its_requests_may_be() -> None:
    """vLLM refuses requests longer than --max-model-len; another one costs no memory."""
    text = advisor.export(serve("llama-3.1-8b", "h100-sxm", 1), "vllm").content
    assert "--max-model-len 1280 " in text
    assert "Requests may have 1,280 tokens, prompt and answer together. The memory holds" in text


def test_speech_needs_more_packages_than_text() -> None:
    """docs.vllm.ai, Transcriptions API: "To use this API, install with vllm[audio]"."""
    text = advisor.export(serve("whisper-large-v3", "l4", 1), "vllm").content

    [needs] = [line for line in text.splitlines() if line.startswith("# Needs:")]
    assert needs.startswith("# Needs: pip install 'vllm[audio]==")
    [image] = [line for line in text.splitlines() if "in the image" in line]
    assert "vllm[audio]==" in image


def test_vllm_on_gaudi_is_built_with_its_plugin() -> None:
    """PyPI's wheel of vLLM is built for CUDA; vllm-gaudi's Dockerfile builds both from source."""
    text = advisor.export(serve("llama-3.1-8b", "gaudi3", 1), "checklist").content
    assert "vLLM 0.26.0" in text
    assert "docker build -t vllm-gaudi:0.26.0" in text
    assert "docker pull vllm-gaudi" not in text
    assert "pip install vllm" not in text


# aws-neuron/aws-neuron-sdk@43a8962: four logical cores of a Trainium2 are ranks, two of an
# Inferentia2; vllm-neuron/docs/guides/reference-configuration.md: the largest bucket of prompts is
# --max-num-batched-tokens and the sizes of segments; NxD Inference reads prompts whole.
@pytest.mark.parametrize(
    ("card", "count", "preset", "ranks", "shapes"),
    [
        ("trainium2", 1, "llama-3.1-8b", 4, {}),
        ("trainium3", 2, "gpt-oss-120b", 4, {"quantization": "mxfp4"}),
        ("inferentia2", 1, "llama-3.1-8b", 2, None),
    ],
)
def test_vllm_on_neuron_counts_cores_and_compiles_stated_shapes(
    card: str, count: int, preset: str, ranks: int, shapes: dict[str, str] | None
) -> None:
    case = serve(preset, card, count)
    text = advisor.export(case, "vllm").content
    options = dict(re.findall(r"(--[\w-]+) (\S.*?)(?: \\)?\n", text))
    layout = advisor.estimate(case).layout
    assert int(options["--tensor-parallel-size"]) == ranks * layout.tensor
    assert options["--data-parallel-size"] == "1"
    if shapes is None:
        assert "--no-enable-prefix-caching" in text
        assert "--max-num-batched-tokens" not in options
        return
    size = int(options["--max-num-batched-tokens"])
    found = json.loads(options["--additional-config"].strip("'"))["neuron_config"]
    assert found["num_batched_tokens_buckets"] == found["kv_segment_size_buckets"] == [size]
    assert size in (512, 1024, 2048, 4096, 8192)
    assert found["num_seqs_buckets"] == [int(options["--max-num-seqs"])]
    assert {**found, **shapes} == found


def test_compose_asks_each_server_by_the_shell_alone() -> None:
    """Few images hold curl; bash opens /dev/tcp/HOST/PORT itself (its manual, Redirections)."""
    text = advisor.export(serve("llama-3.1-8b", "h100-sxm", 1), "compose").content
    [server] = yaml.safe_load(text)["services"].values()
    kind, shell, option, line = server["healthcheck"]["test"]
    assert (kind, shell, option) == ("CMD", "bash", "-c")
    assert subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0
    assert "/dev/tcp/127.0.0.1/8000" in line
    assert "GET /health " in line


def test_servers_on_neuron_see_their_own_cores() -> None:
    text = advisor.export(serve("gpt-oss-120b", "trainium3", 2), "compose").content
    services = yaml.safe_load(text)["services"]
    seen = [one["environment"]["NEURON_RT_VISIBLE_CORES"] for one in services.values()]
    assert seen == ["0,1,2,3", "4,5,6,7"]


def test_gpt_oss_is_unpacked_where_trainium_has_no_4_bits() -> None:
    """vllm-neuron/docs/model-recipes/gpt-oss.md: BF16 on Trn2; the quickstart unsets its format."""
    text = advisor.export(serve("gpt-oss-20b", "trainium2", 1), "vllm").content
    assert "--dtype bfloat16" in text
    assert """--hf-overrides '{"quantization_config": {}}'""" in text


def test_amd_cards_serve_in_the_image() -> None:
    """docs.vllm.ai, installation on GPUs: wheels for ROCm are in an index of their own."""
    text = advisor.export(serve("llama-3.1-8b", "mi300x", 1), "vllm").content
    assert "pip install vllm" not in text
    assert "# Start it in the image: docker run" in text


@pytest.mark.parametrize(
    ("card", "image"),
    [
        ("mi300x", "server-rocm"),
        ("rx-9070-xt", "server-vulkan"),
        ("ryzen-ai-max-395", "server-vulkan"),
        ("arc-pro-b60", "server-intel"),
        ("rtx-3090", "server-cuda"),
    ],
)
def test_llama_cpp_starts_over_the_interface_of_the_runs_behind_the_plan(
    card: str, image: str
) -> None:
    """RX 7900 XTX: 167 to 177 tokens/s over Vulkan, 129 to 144 over ROCm (llama.cpp, issue 20934).

    Arc Pro B70: llama.cpp's runs over SYCL (desktop_runs.csv).
    """
    case = serve("llama-3.1-8b", card, 1, concurrency=1, engine="llama-cpp")
    assert image in advisor.export(case, "llama-cpp").content


def test_images_of_tei_keep_weights_in_the_folder_that_is_kept() -> None:
    """Dockerfile-cuda of text-embeddings-inference sets HUGGINGFACE_HUB_CACHE=/data."""
    text = advisor.export(serve("bert-base", "l4", 1), "compose").content
    [script] = yaml.safe_load(text)["services"]["server-0"]["command"]
    lines = script.splitlines()
    assert "export HF_HOME=/weights" in lines
    assert 'export HUGGINGFACE_HUB_CACHE="$${HF_HOME:-$$HOME/.cache/huggingface}/hub"' in lines


def test_gguf_files_are_made_of_the_weights_that_were_named() -> None:
    text = advisor.export(serve("llama-3.1-8b-instruct", "rtx-4090", 1), "llama-cpp").content
    assert "in a folder with meta-llama/Llama-3.1-8B-Instruct; or name" in text


def test_a_file_says_how_to_give_a_large_model_the_shared_memory() -> None:
    """macOS gives the GPU three quarters; DeepSeek-R1 in five bits needs more of 512 GB."""
    text = advisor.export(
        serve("deepseek-r1", "apple-m3-ultra", 1, weight_format="q5_k_m"), "llama-cpp"
    ).content
    assert "By default, the GPU gets 384 GiB" in text
    assert "sudo sysctl iogpu.wired_limit_mb=" in text


def test_a_job_for_amd_starts_its_server_in_the_image() -> None:
    """apptainer.org, User Guide, GPU Support: --rocm and --nv pass the cards to a container."""
    amd = advisor.export(serve("llama-3.1-8b", "mi300x", 1), "slurm").content
    assert amd.rstrip().endswith("bash job.sh")
    last = amd.rstrip().splitlines()[-1]
    assert last.startswith("srun apptainer exec --rocm docker://vllm/vllm-openai-rocm:")
    assert "docker run" not in amd
    nvidia = advisor.export(serve("llama-3.1-8b", "h100-sxm", 1), "slurm").content
    assert nvidia.rstrip().endswith("srun bash job.sh")
    assert "with this last line: srun apptainer exec --nv docker://vllm/vllm-openai:" in nvidia


def test_a_chat_model_answers_calls_of_tools_and_keeps_thoughts_apart() -> None:
    """vllm 0.31.0, docs/features/tool_calling.md and reasoning_outputs.md."""
    told = advisor.export(case_of("gpt-oss-120b", "h100-sxm", 1), "vllm").content
    for words in ("--enable-auto-tool-choice", "--tool-call-parser openai"):
        assert words in told
    thinks = advisor.export(case_of("deepseek-r1", "h200-sxm", 8), "vllm").content
    assert "--reasoning-parser deepseek_r1" in thinks
    assert "--tool-call-parser" not in thinks  # its row says no


@pytest.mark.parametrize(
    ("model", "to", "words"),
    [
        ("glm-5", "vllm", "zai-org/GLM-5-FP8 --tool-call-parser glm47 --reasoning-parser glm45"),
        ("kimi-k2.5", "vllm", "--tool-call-parser kimi_k2 --reasoning-parser kimi_k2"),
        ("minimax-m2.5", "sglang", "--reasoning-parser minimax-append-think"),
        ("deepseek-v3.2", "vllm", "--tokenizer-mode deepseek_v32 --reasoning-parser deepseek_v3"),
        (
            "deepseek-v4-flash",
            "vllm",
            "--tokenizer-mode deepseek_v4 --tool-call-parser deepseek_v4",
        ),
        ("deepseek-v4-flash", "sglang", "--reasoning-parser deepseek-v4"),
    ],
)
def test_models_of_2026_start_as_their_recipes_do(model: str, to: str, words: str) -> None:
    """recipes.vllm.ai, and sglang/srt/parser/reasoning_parser.py of 0.5.21."""
    told = advisor.export(case_of(model, "h200-sxm", 8), to).content.split()
    assert set(words.split()) <= set(told)


def test_embeddings_are_no_chat() -> None:
    """docs.sglang.io, embedding models; vllm 0.31.0, pooling models."""
    case = serve("qwen3-embedding-8b", "l4", 1, concurrency=8)
    assert "--is-embedding" in advisor.export(case, "sglang").content
    pooled = advisor.export(case, "vllm").content
    assert "--runner pooling" in pooled
    assert "parser" not in pooled
    assert "auto-tool-choice" not in pooled


def test_batches_are_those_of_the_estimate() -> None:
    """A rate of requests: the head counts on batches of up to eight, and so does the file."""
    case = serve("sdxl-unet", "l40s", 1, requests_per_s=0.1)
    assert "--batch 8 " in advisor.export(case, "diffusers").content


def test_fp8_on_gaudi_comes_from_the_checkpoint() -> None:
    """vllm-gaudi v0.26.0 calibrates fp8 beforehand; --quantization fp8 is CUDA's."""
    case = serve("granite-3.3-8b", "gaudi3", 1, weight_format="fp8")
    with pytest.raises(InputError, match="--checkpoint"):
        advisor.export(case, "vllm")
    assert "--quantization" not in advisor.export(case, "vllm", checkpoint="org/fp8").content
    published = serve("llama-3.1-8b-instruct", "gaudi3", 1, weight_format="fp8")
    text = advisor.export(published, "vllm").content
    assert "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic" in text
    assert "--quantization" not in text


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_kimi_is_told_to_run_the_code_of_its_tokenizer(engine: str) -> None:
    """MoonshotAI/Kimi-K2, docs/deploy_guidance.md: both commands have --trust-remote-code."""
    text = advisor.export(case_of("kimi-k2", "h200-sxm", 16), engine).content
    assert "--trust-remote-code" in text
    assert "code of its repository" in text


def test_windows_of_sound_are_encoded_in_batches_that_fit() -> None:
    """faster-whisper's README: batch_size 8 and 16; scores of 389 windows would take 35 GB."""
    case = {
        "model": {"preset": "whisper-large-v3-turbo"},
        "workload": {"kind": "serving", "audio_hours": "1000/day"},
        "hardware": {"accelerator": "t4", "count": 1},
    }
    assert "--batch 16 " in advisor.export(case, "faster-whisper").content


QWEN_32B = {"model": {"preset": "qwen3-32b"}, "workload": {"kind": "serving", "concurrency": 8}}


def test_two_cards_serve_in_8_bits_behind_every_door() -> None:
    """32.8 GB in fp8 fill 61 % of two RTX 5090 of 32 GB; Qwen publishes them."""
    stated = QWEN_32B | {"hardware": {"accelerator": "rtx-5090", "count": 2}}
    owned = QWEN_32B | {"limits": {"owned": [{"accelerator": "rtx-5090", "count": 2}]}}
    assert advisor.recommend(owned).plans[0].estimate.precision == "fp8"
    assert advisor.estimate(stated).precision == "fp8"
    assert "vllm serve Qwen/Qwen3-32B-FP8 " in advisor.export(stated, "vllm").content


@pytest.mark.parametrize(
    ("model", "card", "to", "weights"),
    [  # huggingface.co/nvidia and huggingface.co/RedHatAI
        ("qwen3-32b", "rtx-5090", "vllm", "nvidia/Qwen3-32B-NVFP4"),
        ("qwen3-32b", "rtx-5090", "tensorrt-llm", "nvidia/Qwen3-32B-NVFP4"),
        (
            "llama-3.3-70b",
            "a100-sxm-80gb",
            "sglang",
            "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16",
        ),
    ],
)
def test_a_plan_in_4_bits_loads_weights_that_are_published(
    model: str, card: str, to: str, weights: str
) -> None:
    workload = {"kind": "serving", "concurrency": 8}
    hardware = {"accelerator": card, "count": 1}
    case = {"model": {"preset": model}, "workload": workload, "hardware": hardware}
    assert weights in advisor.export(case, to).content.replace("Loads ", "", 1).split()


def test_copies_on_chips_of_several_hosts_each_stay_on_one() -> None:
    """Google's ct6e-standard-8t is one machine of 8 chips of TPU v6e."""
    hardware = {"accelerator": "tpu-v6e", "count": 16}
    workload = {"kind": "serving", "concurrency": 128}
    case = {"model": {"preset": "qwen3-32b"}, "workload": workload, "hardware": hardware}
    text = advisor.export(case, "vllm").content
    tensor, data = (
        int(*re.findall(rf"--{kind}-parallel-size (\d+)", text)) for kind in ("tensor", "data")
    )
    assert tensor * data == 8
    assert "2 servers, one on each machine" in text
    stated = {**case, "layout": {"tensor": 16}}
    with pytest.raises(InputError, match="cannot join machines"):
        advisor.export(stated, "vllm")


@pytest.mark.parametrize("card", ["rtx-a6000", "radeon-pro-w7900", "v100-sxm2-32gb", "rtx-4090"])
def test_one_user_of_an_own_card_gets_llama_cpp_and_many_do_not(card: str) -> None:
    hardware = {"accelerator": card, "count": 1}
    for users, engines in ((1, {"llama-cpp"}), (16, {"vllm", "lmdeploy"})):
        workload = {"kind": "serving", "concurrency": users}
        case = {"model": {"preset": "qwen3-8b"}, "workload": workload, "hardware": hardware}
        used = advisor.estimate(case).software
        assert used is not None
        assert used.name in engines


def test_docker_gets_infiniband_only_where_a_machine_has_it() -> None:
    """An AWS g4dn has none: docker run --device fails on a device that is absent."""
    hardware = {"accelerator": "t4", "count": 4}
    workload = {"kind": "serving", "concurrency": 32}
    layout = {"pipeline": 4}
    case = {"model": {"preset": "phi-4"}, "workload": workload, "hardware": hardware}
    text = advisor.export({**case, "layout": layout}, "vllm").content
    assert "--nnodes" in text
    assert "$([ -d /dev/infiniband ] && echo --device /dev/infiniband)" in text


def test_ollama_is_told_of_no_experts_on_the_host() -> None:
    """ollama/ollama issue 11772 (open), pull 16688 (closed): num_gpu moves whole layers."""
    case = serve("qwen3.5-35b-a3b", "rtx-3060-12gb", 1, concurrency=1)
    with pytest.raises(InputError, match="no experts") as refused:
        advisor.export(case, "ollama")
    assert "--to llama-cpp" in str(refused.value)
    told = advisor.export(case | {"layout": {"gpu_layers": 16}}, "ollama").content
    assert "PARAMETER num_gpu 16" in told


def test_published_files_of_llama_cpp_are_named() -> None:
    """huggingface.co/ggml-org/gpt-oss-20b-GGUF: llama-server -hf takes it; its file is MXFP4."""
    told = advisor.export(
        serve("gpt-oss-20b", "rtx-5070-ti", 1, concurrency=1), "llama-cpp"
    ).content
    assert "-hf ggml-org/gpt-oss-20b-GGUF \\\n" in told
    assert "convert_hf_to_gguf" not in told


def test_lmdeploy_serves_on_a_v100_in_its_image(stubs: Stubs) -> None:
    """TurboMind runs from V100 on (README of LMDeploy), which vLLM's wheels left."""
    case = serve("qwen2.5-7b-instruct", "v100-pcie-16gb", 1)
    text = advisor.export(case, "lmdeploy").content
    [server] = servers(text, "lmdeploy", stubs)
    check_documented(server)
    assert (server.program, server.context) == ("lmdeploy", 1280)
    assert "openmmlab/lmdeploy:v0.16.0-cu12.8" in text


def test_a_thor_runs_vllms_own_image() -> None:
    """NVIDIA/skills, jetson-llm-serve: upstream vLLM on Thor, and on Orin from JetPack 7.2 on."""
    text = advisor.export(serve("qwen3-8b", "jetson-thor-t5000", 1, concurrency=8), "vllm").content
    assert "vllm/vllm-openai:" in text
    assert "JetPack 7" in text


@pytest.mark.parametrize("to", ["vllm", "sglang"])
def test_weights_that_name_an_fp8_cache_do_not_decide_it(to: str) -> None:
    """kv_cache_scheme of nvidia/Qwen3-30B-A3B-NVFP4 is fp8, which `auto` takes, not the plan's."""
    case = serve("qwen3-30b-a3b", "rtx-5090", 1, concurrency=4, weight_format="nvfp4")
    assert advisor.estimate(case).kv_cache_format == "bf16"
    text = advisor.export(case, to).content
    assert "NVFP4" in text
    assert "--kv-cache-dtype bfloat16" in text
