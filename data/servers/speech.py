"""Serves speech recognition with faster-whisper: curl --data-binary @talk.mp3 HOST:PORT.

Sound is cut at pauses into windows of up to 30 s, which are decoded together.
"""

import argparse
import io

import numpy
from batches import serve
from faster_whisper import BatchedInferencePipeline, WhisperModel, decode_audio
from faster_whisper.vad import VadOptions, collect_chunks, get_speech_timestamps

WINDOW_S, RATE = 30, 16_000
parser = argparse.ArgumentParser()
for name in ("model", "device", "compute-type"):
    parser.add_argument(f"--{name}", required=True)
for name in ("batch", "port"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--language", help="as en; recognised in each window if absent")
plan = parser.parse_args()

model = WhisperModel(plan.model, device=plan.device, compute_type=plan.compute_type)
pipeline = BatchedInferencePipeline(model)
pauses = VadOptions(max_speech_duration_s=WINDOW_S, min_silence_duration_ms=160)


def windows(body):
    """Return the windows of a sound file."""
    sound = decode_audio(io.BytesIO(body), sampling_rate=RATE)
    speech = get_speech_timestamps(sound, pauses)
    return collect_chunks(sound, speech, max_duration=WINDOW_S)[0] if speech else []


def transcribe(parts):
    """Return the text of each window."""
    whole = numpy.zeros(len(parts) * WINDOW_S * RATE, dtype=numpy.float32)
    places = []
    for index, part in enumerate(parts):
        start = index * WINDOW_S
        whole[start * RATE : start * RATE + len(part)] = part
        places.append({"start": start, "end": start + min(WINDOW_S, len(part) / RATE)})
    segments, _ = pipeline.transcribe(
        whole,
        language=plan.language or "en",
        multilingual=plan.language is None,
        beam_size=1,
        batch_size=plan.batch,
        clip_timestamps=places,
    )
    texts = [""] * len(parts)
    for segment in segments:
        texts[min(int(segment.start // WINDOW_S), len(parts) - 1)] += segment.text
    return texts


serve(plan.port, plan.batch, windows, transcribe, "".join, "text/plain; charset=utf-8")
