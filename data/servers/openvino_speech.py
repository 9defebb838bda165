"""Serves speech recognition with OpenVINO GenAI: curl --data-binary @talk.wav HOST:PORT."""

import argparse
import io

import librosa
import openvino_genai
from batches import serve

parser = argparse.ArgumentParser()
for name in ("model", "device"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--port", type=int, required=True)
plan = parser.parse_args()
pipeline = openvino_genai.WhisperPipeline(plan.model, plan.device)


def read(body):
    """Return the samples of a sound file, at the rate of the network."""
    return [librosa.load(io.BytesIO(body), sr=16_000)[0].tolist()]


def transcribe(sounds):
    """Return the text of each sound; sounds beyond 30 s need time stamps."""
    return [str(pipeline.generate(sound, return_timestamps=True)) for sound in sounds]


serve(plan.port, 1, read, transcribe, "".join, "text/plain; charset=utf-8")
