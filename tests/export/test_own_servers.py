"""Scripts in ``data/servers``: what they start, and what they answer.

Their libraries need cards or gigabytes, so the tests put small stand-ins in their place.
"""

import contextlib
import runpy
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.errors import InputError
from advisor.foundation.resources import data_path
from tests.cases import serve
from tests.export.read_back import paired, servers
from tests.export.stubs import Stubs

FOLDER = data_path("servers")
RATE = 16_000


def started(
    script: str, arguments: Mapping[str, object], modules: Mapping[str, Any], monkeypatch: Any
) -> dict[str, Any]:
    """What a script hands to ``batches.serve``, with its libraries replaced."""
    found: dict[str, Any] = {}

    def noted(port: int, batch: int, *functions: Any) -> None:
        names = ("read", "answer", "join", "kind")
        found.update(port=port, batch=batch, **dict(zip(names, functions, strict=True)))

    for name, content in {"batches": SimpleNamespace(serve=noted), **modules}.items():
        module = ModuleType(name)
        vars(module).update(vars(content))
        monkeypatch.setitem(sys.modules, name, module)
    words = [word for name, value in arguments.items() for word in (name, str(value)) if word]
    monkeypatch.setattr(sys, "argv", ["serve.py", *words])
    runpy.run_path(str(FOLDER / script))
    return found


@pytest.fixture
def address() -> Iterator[Any]:
    """Starts the server of ``batches.py`` with three parts at a time."""
    batches = SimpleNamespace(**runpy.run_path(str(FOLDER / "batches.py")))
    sizes: list[int] = []
    port: list[int] = []
    usual: Any = batches.ThreadingHTTPServer

    class Local(usual):  # type: ignore[misc]
        def __init__(self, place: tuple[str, int], handler: Any) -> None:
            super().__init__(("127.0.0.1", 0), handler)
            port.append(self.server_address[1])
            running.append(self)

    running: list[Any] = []
    batches.serve.__globals__["ThreadingHTTPServer"] = Local
    batches.serve.__globals__["WAIT_S"] = 0.2

    def answer(parts: list[str]) -> list[str]:
        sizes.append(len(parts))
        if "bad" in parts:
            raise ValueError("no such word")
        return [part.upper() for part in parts]

    threading.Thread(
        target=batches.serve,
        args=(0, 3, lambda body: body.decode("ascii").split(), answer, " ".join, "text/plain"),
        daemon=True,
    ).start()
    while not running:
        pass
    yield SimpleNamespace(url=f"http://127.0.0.1:{port[0]}", sizes=sizes)
    running[0].shutdown()


def reply(url: str, body: bytes | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, data=body, timeout=30) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_parts_of_all_requests_share_batches_of_the_stated_size(address: Any) -> None:
    answers: list[tuple[int, str]] = []
    bodies = [b"a b", b"c d e", b"f"]
    threads = [
        threading.Thread(target=lambda b=body: answers.append(reply(address.url, b)))
        for body in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [(200, "A B"), (200, "C D E"), (200, "F")]
    assert max(address.sizes) == 3
    assert sum(address.sizes) == 6


def test_errors_reach_only_who_asked(address: Any) -> None:
    assert reply(address.url, "ü".encode())[0] == 400
    assert reply(address.url, b"bad") == (500, "no such word\n")
    assert reply(address.url, b"good") == (200, "GOOD")
    assert reply(f"{address.url}/health") == (200, "ready\n")
    assert "requests_waiting 0" in reply(f"{address.url}/metrics")[1]
    assert reply(f"{address.url}/other")[0] == 404


def test_windows_of_several_recordings_are_decoded_together(monkeypatch: Any) -> None:
    asked: dict[str, Any] = {}

    class Pipeline:
        def __init__(self, model: Any) -> None:
            self.model = model

        def transcribe(self, sound: Any, **options: Any) -> Any:
            asked.update(options, seconds=len(sound) / RATE)
            texts = [
                SimpleNamespace(start=place["start"], text=f" {place['end']:g}")
                for place in options["clip_timestamps"]
            ]
            return iter([*texts, SimpleNamespace(start=0.5, text=" more")]), None

    library = SimpleNamespace(
        BatchedInferencePipeline=Pipeline, WhisperModel=SimpleNamespace, decode_audio=None
    )
    library.WhisperModel = lambda name, **options: SimpleNamespace(name=name, **options)
    cuts = SimpleNamespace(VadOptions=SimpleNamespace, collect_chunks=None)
    cuts.get_speech_timestamps = None
    words = {"--model": "large-v3", "--device": "cuda", "--compute-type": "float16"}
    arguments = {**words, "--batch": 8, "--port": 8000}
    modules = {"faster_whisper": library, "faster_whisper.vad": cuts}
    found = started("speech.py", arguments, modules, monkeypatch)
    ten, thirty = np.ones(10 * RATE), np.ones(30 * RATE)
    assert found["answer"]([ten, thirty]) == [" 10 more", " 60"]
    assert (asked["seconds"], asked["batch_size"], asked["beam_size"]) == (60, 8, 1)
    assert asked["multilingual"]
    assert found["join"]([" a", " b"]) == " a b"


@pytest.mark.parametrize(("turn", "packs"), [(True, False), (False, False), (True, True)])
def test_images_are_drawn_with_the_plans_steps_and_size(
    monkeypatch: Any, turn: bool, packs: bool
) -> None:
    """Diffusers' guide to bitsandbytes packs the transformer of FLUX and its T5, not CLIP."""
    calls: list[Any] = []

    class Image:
        def save(self, file: Any, format: str) -> None:
            file.write(format.encode())

    class Pipeline:
        vae = SimpleNamespace(enable_slicing=lambda: calls.append("slices"))

        @classmethod
        def from_pretrained(cls, name: str, torch_dtype: str, **packed: Any) -> "Pipeline":
            calls.append((name, torch_dtype, *packed.values()))
            return cls()

        def to(self, device: str) -> None:
            calls.append(device)

        def enable_model_cpu_offload(self, device: str) -> None:
            calls.append(("in turn", device))

        def __call__(self, texts: list[str], **options: Any) -> Any:
            calls.append(options)
            return SimpleNamespace(images=[Image() for _ in texts])

    modules = {
        "torch": SimpleNamespace(bfloat16="16 bits"),
        "diffusers": SimpleNamespace(
            AutoPipelineForText2Image=Pipeline,
            BitsAndBytesConfig=lambda **bits: ("diffusers", bits["bnb_4bit_quant_type"]),
            PipelineQuantizationConfig=lambda quant_mapping: quant_mapping,
        ),
        "transformers": SimpleNamespace(
            BitsAndBytesConfig=lambda **bits: ("transformers", bits["bnb_4bit_quant_type"])
        ),
    }
    arguments: dict[str, object] = {"--model": "org/name", "--dtype": "bfloat16"}
    arguments |= {"--device": "cuda", "--batch": 4, "--steps": 50, "--size": 1024, "--port": 8000}
    if turn:
        arguments["--in-turn"] = ""
    if packs:
        arguments["--weights"] = "nf4"
    found = started("images.py", arguments, modules, monkeypatch)
    assert found["answer"](["a", "b"]) == [b"PNG", b"PNG"]
    loaded, *calls = calls
    assert loaded[:2] == ("org/name", "16 bits")
    parts = loaded[2] if packs else {}
    assert [parts.get(name) for name in ("transformer", "text_encoder", "text_encoder_2")] == (
        [("diffusers", "nf4"), None, ("transformers", "nf4")] if packs else [None] * 3
    )
    assert calls == [
        ("in turn", "cuda") if turn else "cuda",
        "slices",
        {"num_inference_steps": 50, "height": 1024, "width": 1024},
    ]


def test_a_text_is_the_mean_of_its_own_tokens(monkeypatch: Any) -> None:
    """Padding counts for nothing: the mean of 2 and 4 is 3, whatever follows."""
    states = np.array([[[2.0], [4.0], [9.0]], [[1.0], [1.0], [4.0]]], dtype=np.float32)

    class Session:
        def __init__(self, path: str, providers: list[str]) -> None:
            assert (path, providers) == ("bert/model.onnx", ["CPUExecutionProvider"])

        def get_providers(self) -> list[str]:
            return ["CPUExecutionProvider"]

        def get_inputs(self) -> list[Any]:
            return [SimpleNamespace(name="input_ids", type="tensor(int64)")]

        def get_outputs(self) -> list[Any]:
            return [SimpleNamespace(name="last_hidden_state")]

        def run(self, names: list[str], inputs: dict[str, Any]) -> list[Any]:
            assert set(inputs) == {"input_ids"}
            return [states]

    def tokenizer(texts: list[str], **options: Any) -> dict[str, Any]:
        assert options["max_length"] == 512
        return {"input_ids": np.ones((2, 3)), "attention_mask": np.array([[1, 1, 0], [1, 1, 1]])}

    modules = {
        "onnxruntime": SimpleNamespace(InferenceSession=Session),
        "transformers": SimpleNamespace(
            AutoTokenizer=SimpleNamespace(from_pretrained=lambda name: tokenizer)
        ),
    }
    arguments: dict[str, object] = {"--model": "bert", "--runtime": "onnxruntime"}
    arguments |= {"--device": "CPUExecutionProvider", "--reads": "texts", "--length": 512}
    found = started("networks.py", arguments | {"--batch": 8, "--port": 1}, modules, monkeypatch)
    assert found["answer"](found["read"](b"one\ntwo")) == [[3.0], [2.0]]
    arguments["--reads"] = "pairs"
    pairs = started("networks.py", arguments | {"--batch": 8, "--port": 1}, modules, monkeypatch)
    assert pairs["read"](b"question\ttext") == [("question", "text")]
    with pytest.raises(ValueError, match="a tab"):
        pairs["read"](b"question")


def test_a_card_that_does_not_start_stops_the_server(monkeypatch: Any) -> None:
    """ONNX Runtime computes on the processor, without an error, where CUDA is missing."""

    class Session:
        def __init__(self, path: str, providers: list[str]) -> None:
            self.path = path

        def get_providers(self) -> list[str]:
            return ["CPUExecutionProvider"]

    library = SimpleNamespace(InferenceSession=Session, preload_dlls=lambda: None)
    arguments: dict[str, object] = {"--model": "a", "--runtime": "onnxruntime", "--reads": "texts"}
    arguments |= {"--device": "CUDAExecutionProvider", "--batch": 8, "--port": 1}
    with pytest.raises(SystemExit, match="did not start"):
        started("networks.py", arguments, {"onnxruntime": library}, monkeypatch)


@pytest.mark.parametrize(
    ("to", "model", "card", "batch"),
    [
        ("faster-whisper", "whisper-large-v3", "rtx-3060-12gb", "8"),
        ("diffusers", "sdxl-unet", "rtx-3090", "8"),
        ("onnxruntime", "resnet-50", "l4", "8"),
        ("openvino", "bge-m3", "arc-b580", "8"),
        ("openvino", "bert-base", "xeon-8480plus", "8"),
        ("triton", "vit-base-patch16-224", "l4", "8"),
    ],
)
def test_files_compute_the_stated_requests_together(
    to: str, model: str, card: str, batch: str, tmp_path: Path
) -> None:
    case = serve(model, card, 1, concurrency=8)
    [server] = servers(advisor.export(case, to).content, to, Stubs(tmp_path / "stubs"))
    assert str(server.sequences) == batch
    assert server.program == to


@pytest.mark.parametrize(
    ("to", "card"), [("whisper-cpp", "apple-m4-max"), ("openvino", "arc-b580")]
)
def test_a_program_that_computes_one_request_is_estimated_so(to: str, card: str) -> None:
    """server.cpp of whisper.cpp holds a lock through a request; WhisperPipeline takes one sound."""
    eight = serve("whisper-large-v3", card, 1, concurrency=8)
    one = serve("whisper-large-v3", card, 1, concurrency=1)
    head, alone = (
        next(line for line in advisor.export(case, to).content.splitlines() if "Expect" in line)
        for case in (eight, one)
    )
    assert head == alone
    assert "one request at a time on each card" in advisor.export(eight, to).content


def test_whisper_cpp_fetches_and_packs_published_weights(tmp_path: Path) -> None:
    """models/download-ggml-model.sh of whisper.cpp names the files and their address."""
    case = serve("whisper-large-v3-turbo", "apple-m4-max", 1, concurrency=1, weight_format="q8_0")
    ran = Stubs(tmp_path / "stubs").run(advisor.export(case, "whisper-cpp").content)
    fetch, pack, start = ran.calls
    published = "https://huggingface.co/ggerganov/whisper.cpp/resolve/main/"
    assert fetch[-1] == f"{published}ggml-large-v3-turbo.bin"
    assert pack == [
        *("whisper-quantize", "ggml-large-v3-turbo.bin", "ggml-large-v3-turbo-q8_0.bin", "q8_0")
    ]
    assert paired(start)["-m"] == "ggml-large-v3-turbo-q8_0.bin"


def test_parts_that_do_not_fit_beside_the_network_take_turns() -> None:
    """FLUX.1 has 12 billion parameters, its text encoders 4.9: 34 GB in 16 bits."""
    case = serve("flux.1-dev", "rtx-4090", 1, concurrency=1)
    small = advisor.export(case, "diffusers").content
    case["hardware"] = {"accelerator": "h100-sxm", "count": 1}
    large = advisor.export(case, "diffusers").content
    assert "--in-turn" in small.rpartition("python3 serve.py")[2]
    assert "--in-turn" not in large.rpartition("python3 serve.py")[2]
    assert "9.3 GiB, come on top" in large


def test_guidance_that_the_plan_leaves_out_is_switched_off() -> None:
    case = serve("sdxl-unet", "rtx-4090", 1, concurrency=1)
    assert "--guidance-scale \\" not in advisor.export(case, "diffusers").content
    case["workload"]["guidance"] = False
    started_with = advisor.export(case, "diffusers").content.rpartition("python3 serve.py")[2]
    assert "--guidance-scale 1 " in started_with


def test_triton_is_told_batches_and_one_instance_for_each_card(tmp_path: Path) -> None:
    case = serve("resnet-50", "l4", 1, concurrency=8)
    ran = Stubs(tmp_path / "stubs").run(advisor.export(case, "triton").content)
    assert "max_batch_size: 8" in ran.texts["config.pbtxt"]
    assert ran.calls[-1] == [
        *("tritonserver", "--model-repository", "models", "--http-port", "8000")
    ]
    assert "instance_group [ { count: 1 kind: KIND_GPU } ]" in ran.texts["config.pbtxt"]


@pytest.mark.parametrize(
    ("to", "model"),
    [
        ("faster-whisper", "whisper-large-v3"),
        ("whisper-cpp", "whisper-large-v3"),
        ("diffusers", "sdxl-unet"),
        ("onnxruntime", "resnet-50"),
        ("triton", "resnet-50"),
    ],
)
def test_names_of_weights_stay_words(to: str, model: str, tmp_path: Path) -> None:
    case = serve(model, "l4", 1, concurrency=1)
    text = advisor.export(case, to, checkpoint="a b;$(touch p)`touch p`' #").content
    assert "p" not in Stubs(tmp_path / "stubs").run(text).files


@pytest.mark.parametrize(
    ("to", "model", "card", "instead"),
    [
        ("onnxruntime", "t5-large", "l4", "PyTorch"),
        ("openvino", "llama-3.1-8b", "arc-b580", "llama-cpp"),
        ("diffusers", "dit-xl-2", "l4", "Diffusers"),
    ],
)
def test_what_no_file_starts_is_refused_with_what_does(
    to: str, model: str, card: str, instead: str
) -> None:
    """The scripts read texts and images, write speech and draw: none writes a translation."""
    with pytest.raises(InputError, match="no file starts") as caught:
        advisor.export(serve(model, card, 1, concurrency=1), to)
    assert instead in str(caught.value)


@pytest.mark.parametrize("card", ["mi300x", "rx-7900-xtx", "a100-sxm-80gb", "arc-b580"])
def test_a_file_starts_the_program_that_the_plan_names(card: str) -> None:
    """PyTorch serves images on every vendor's cards; the plan is eager PyTorch in bf16."""
    case = serve("resnet-50", card, 1, concurrency=8)
    used = advisor.estimate(case).software
    assert used is not None
    assert used.name == "pytorch"
    text = advisor.export(case, "pytorch").content
    assert "instead of" not in text
    assert "--runtime pytorch" in text.rpartition("python3 serve.py")[2]


def test_texts_of_an_amd_card_are_embedded_by_pytorch() -> None:
    case = serve("bge-large-en-v1.5", "mi300x", 1, concurrency=8)
    text = advisor.export(case, "compose").content
    assert "image: rocm/pytorch" in text
    assert "sentence-transformers==" in text
    assert "--reads texts" in text
    assert "--device cuda" in text  # PyTorch's name of AMD cards


@pytest.mark.parametrize(("to", "model"), [("pytorch", "bge-m3"), ("diffusers", "sdxl-unet")])
def test_old_cards_get_the_last_pytorch_with_kernels(to: str, model: str) -> None:
    """PyTorch 2.15 has no wheels for Volta (dev-discuss.pytorch.org, 2026-09-04)."""
    text = advisor.export(serve(model, "v100-sxm2-32gb", 1, concurrency=1), to).content
    assert "torch==2.14.0+cu126" in text
    assert "torch==2.15" not in text
    assert "2.14 for CUDA 12.6 is the last with kernels" in text


def test_pytorch_serves_images_and_texts(monkeypatch: Any) -> None:
    """Pixels are cast to the plan's format, and a text is what its own library makes of it."""
    ran: list[Any] = []

    class Tensor(np.ndarray[Any, Any]):
        def to(self, where: str) -> Any:
            ran.append(where)
            return self

        def float(self) -> Any:
            return self

        cpu = float

        def numpy(self) -> Any:
            return np.asarray(self)

    def tensor(value: Any) -> Any:
        return np.asarray(value, dtype=np.float32).view(Tensor)

    class Network:
        def to(self, device: str) -> Any:
            return self

        def eval(self) -> None:
            ran.append("eval")

        def __call__(self, given: Any = None, **named: Any) -> dict[str, Any]:
            if given:
                return {"sentence_embedding": tensor([[1.0, 2.0]])}
            return {"logits": tensor([[0.0, 9.0, 1.0]])}

    def load(name: str, **how: Any) -> Network:
        assert name == "org/name"
        assert how.get("model_kwargs", how)["dtype"] == "bf16"
        return Network()

    def loader(what: Any) -> Any:
        return SimpleNamespace(from_pretrained=lambda name, **how: what)

    modules = {
        "torch": SimpleNamespace(
            bfloat16="bf16", as_tensor=tensor, inference_mode=contextlib.nullcontext
        ),
        "PIL": SimpleNamespace(Image=None),
        "sentence_transformers": SimpleNamespace(SentenceTransformer=load),
        "transformers": SimpleNamespace(
            AutoModelForImageClassification=SimpleNamespace(from_pretrained=load),
            AutoConfig=loader(SimpleNamespace(id2label={0: "cat", 1: "dog"})),
            AutoImageProcessor=loader(lambda images, **how: {"pixel_values": np.zeros((1, 3))}),
            AutoTokenizer=loader(lambda texts, **how: {"input_ids": np.ones((1, 2))}),
        ),
    }
    arguments: dict[str, object] = {"--model": "org/name", "--runtime": "pytorch"}
    arguments |= {"--dtype": "bfloat16", "--device": "xpu", "--batch": 8, "--port": 1}
    images = started("networks.py", arguments | {"--reads": "images"}, modules, monkeypatch)
    assert [label for label, _ in images["answer"]([None])[0]] == ["dog", 2, "cat"]
    assert ran == ["eval", "xpu", "bf16"]
    texts = started("networks.py", arguments | {"--reads": "texts"}, modules, monkeypatch)
    assert texts["answer"](["a"]) == [[1.0, 2.0]]
