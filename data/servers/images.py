"""Serves images of texts with Diffusers: curl -d 'a lighthouse in fog' HOST:PORT -o image.png."""

import argparse
import io

import diffusers
import torch
import transformers
from batches import serve

parser = argparse.ArgumentParser()
for name in ("model", "device"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--dtype", default="bfloat16", help="of the computation")
parser.add_argument("--weights", choices=["nf4"], help="of the large parts, packed while loading")
for name in ("batch", "steps", "size", "port"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--guidance-scale", type=float, help="the pipeline's own if absent")
parser.add_argument("--in-turn", action="store_true", help="one part on the card at a time")
plan = parser.parse_args()

dtype = getattr(torch, plan.dtype)
packed = {}
if plan.weights:
    bits = {"load_in_4bit": True, "bnb_4bit_quant_type": plan.weights}
    bits |= {"bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": dtype}
    network = diffusers.BitsAndBytesConfig(**bits)
    parts = {"transformer": network, "unet": network}
    parts |= dict.fromkeys(
        ["text_encoder_2", "text_encoder_3"], transformers.BitsAndBytesConfig(**bits)
    )
    packed["quantization_config"] = diffusers.PipelineQuantizationConfig(quant_mapping=parts)
pipeline = diffusers.AutoPipelineForText2Image.from_pretrained(
    plan.model, torch_dtype=dtype, **packed
)
if plan.in_turn:
    pipeline.enable_model_cpu_offload(device=plan.device)
else:
    pipeline.to(plan.device)
pipeline.vae.enable_slicing()  # latents become pixels image by image
shape = {"num_inference_steps": plan.steps, "height": plan.size, "width": plan.size}
if plan.guidance_scale is not None:
    shape["guidance_scale"] = plan.guidance_scale


def draw(texts):
    """Return one PNG file for each text."""
    files = [io.BytesIO() for _ in texts]
    for image, file in zip(pipeline(texts, **shape).images, files, strict=True):
        image.save(file, format="PNG")
    return [file.getvalue() for file in files]


serve(plan.port, plan.batch, lambda body: [body.decode()], draw, b"".join, "image/png")
