"""Serves a network that reads texts or images, with PyTorch, ONNX Runtime or OpenVINO.

Texts, one on each line: curl --data-binary @texts HOST:PORT. An image in the same way.
"""

import argparse
import io
import json

import numpy
from batches import serve

parser = argparse.ArgumentParser()
for name in ("model", "runtime", "device", "reads"):
    parser.add_argument(f"--{name}", required=True)
for name in ("batch", "port"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--length", type=int, help="most tokens of a text")
parser.add_argument("--dtype", help="format in which PyTorch computes")
plan = parser.parse_args()

if plan.runtime == "openvino":
    import openvino

    network = openvino.Core().compile_model(f"{plan.model}/openvino_model.xml", plan.device)
    types = {
        name: item.element_type.get_type_name() for item in network.inputs for name in item.names
    }

    def run(inputs):
        """Return the outputs by name."""
        found = network(inputs)
        return {name: value for key, value in found.items() for name in key.names}
elif plan.runtime == "pytorch":
    import torch

    stored = {"dtype": getattr(torch, plan.dtype)}
    if plan.reads == "texts":
        from sentence_transformers import SentenceTransformer

        network = SentenceTransformer(plan.model, device=plan.device, model_kwargs=stored)
    else:
        import transformers

        kind = "Image" if plan.reads == "images" else "Sequence"
        loader = getattr(transformers, f"AutoModelFor{kind}Classification")
        network = loader.from_pretrained(plan.model, **stored).to(plan.device)
    network.eval()
    types = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids", "pixel_values"), "")

    def run(inputs):
        """Return the outputs by name."""
        given = {name: torch.as_tensor(value).to(plan.device) for name, value in inputs.items()}
        if "pixel_values" in given:
            given["pixel_values"] = given["pixel_values"].to(stored["dtype"])
        with torch.inference_mode():
            found = network(given) if plan.reads == "texts" else network(**given)
        names = ("sentence_embedding", "logits")
        return {name: found[name].float().cpu().numpy() for name in names if name in found}
else:
    import onnxruntime

    if plan.device == "CUDAExecutionProvider":
        onnxruntime.preload_dlls()
    session = onnxruntime.InferenceSession(f"{plan.model}/model.onnx", providers=[plan.device])
    if session.get_providers()[0] != plan.device:
        raise SystemExit(f"{plan.device} did not start: its libraries are missing")
    types = {item.name: item.type for item in session.get_inputs()}

    def run(inputs):
        """Return the outputs by name."""
        names = [item.name for item in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))


def outputs(inputs):
    """Run the network on what it reads, in its own formats."""
    halves = {name for name, kind in types.items() if "16" in kind}
    given = {name: value for name, value in inputs.items() if name in types}
    return run({n: v.astype(numpy.float16) if n in halves else v for n, v in given.items()})


if plan.reads == "images":
    from PIL import Image
    from transformers import AutoConfig, AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(plan.model, use_fast=False)
    labels = AutoConfig.from_pretrained(plan.model).id2label

    def read(body):
        """Return the picture in a file."""
        return [Image.open(io.BytesIO(body)).convert("RGB")]

    def answer(images):
        """Return the likeliest classes of each image."""
        found = outputs(dict(processor(images, return_tensors="np")))["logits"].astype(float)
        shares = numpy.exp(found - found.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        best = numpy.argsort(-shares, axis=1)[:, :5]
        return [
            [[labels.get(int(index), int(index)), float(row[index])] for index in order]
            for row, order in zip(shares, best, strict=True)
        ]
else:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(plan.model)

    def read(body):
        """Return texts, one on each line; the two of a pair are divided by a tab."""
        lines = body.decode().splitlines()
        if plan.reads == "texts":
            return lines
        pairs = [tuple(line.split("\t")) for line in lines]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError("write a question, a tab and a text on each line")
        return pairs

    def answer(texts):
        """Return an embedding of each text, or the score of each pair."""
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=plan.length, return_tensors="np"
        )
        found = outputs(dict(tokens))
        result = found.get("sentence_embedding", found.get("logits"))
        if result is None:
            mask = tokens["attention_mask"][:, :, None]
            result = (found["last_hidden_state"] * mask).sum(axis=1) / mask.sum(axis=1)
        return result.astype(float).tolist()


serve(plan.port, plan.batch, read, answer, json.dumps, "application/json")
