"""Tiny weights files, written byte by byte; their data is a hole where it may be."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

F32, F16, Q4_K, Q6_K = 0, 1, 12, 14
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_K: (256, 144), Q6_K: (256, 210)}
"""Values and bytes of a block, by hand: 2 + 2 + 12 + 128 and 128 + 64 + 16 + 2."""

GgufValue = int | float | str | Sequence[str] | Sequence[int]


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str | bytes, value: GgufValue) -> bytes:
    """One metadata pair: whole numbers as u32, as converters write them."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if value and isinstance(value[0], str):
        items = b"".join(text(str(item)) for item in value)
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + items
    numbers = [int(item) for item in value]
    return text(key) + struct.pack(f"<IIQ{len(numbers)}I", 9, 4, len(numbers), *numbers)


def info(name: str | bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return (
        text(name)
        + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        + struct.pack("<IQ", kind, offset)
    )


def gguf(
    pairs: Mapping[str, GgufValue],
    tensors: Sequence[tuple[str, tuple[int, ...], int]],
    *,
    version: int = 3,
) -> tuple[bytes, int]:
    """Return the header of a file, padded, and the bytes of data that belong after it."""
    offset, infos = 0, b""
    for name, shape, kind in tensors:
        infos += info(name, shape, kind, offset)
        count = 1
        for size in shape:
            count *= size
        values, size = BLOCKS[kind]
        offset += -(-(count // values * size) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    head += b"".join(pair(key, value) for key, value in pairs.items()) + infos
    return head + b"\0" * (-len(head) % 32), offset


def write_gguf(path: Path, header: tuple[bytes, int]) -> Path:
    head, data = header
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + data)
    return path


def llama_gguf(
    *, layers: int, hidden: int, heads: int, groups: int, width: int, vocab: int, tied: bool
) -> tuple[dict[str, GgufValue], list[tuple[str, tuple[int, ...], int]]]:
    """Metadata and tensors of a Llama in Q4_K_M."""
    pairs: dict[str, GgufValue] = {
        "general.architecture": "llama",
        "general.name": "Tiny Llama",
        "general.file_type": 15,
        "llama.block_count": layers,
        "llama.context_length": 131072,
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": width,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": groups,
        "llama.rope.freq_base": 500000.0,
        "tokenizer.ggml.tokens": [f"token {i}" for i in range(20)],
    }
    cached = hidden // heads * groups
    tensors = [
        ("rope_freqs.weight", (hidden // heads // 2,), F32),
        ("token_embd.weight", (hidden, vocab), Q6_K if tied else Q4_K),
        ("output_norm.weight", (hidden,), F32),
    ]
    if not tied:
        tensors.append(("output.weight", (hidden, vocab), Q6_K))
    for i in range(layers):
        first = layers // 8
        more = i < first or i >= 7 * layers // 8 or (i - first) % 3 == 2
        tensors += [
            (f"blk.{i}.attn_norm.weight", (hidden,), F32),
            (f"blk.{i}.ffn_norm.weight", (hidden,), F32),
            (f"blk.{i}.attn_q.weight", (hidden, hidden), Q4_K),
            (f"blk.{i}.attn_k.weight", (hidden, cached), Q4_K),
            (f"blk.{i}.attn_v.weight", (hidden, cached), Q6_K if more else Q4_K),
            (f"blk.{i}.attn_output.weight", (hidden, hidden), Q4_K),
            (f"blk.{i}.ffn_gate.weight", (hidden, width), Q4_K),
            (f"blk.{i}.ffn_up.weight", (hidden, width), Q4_K),
            (f"blk.{i}.ffn_down.weight", (width, hidden), Q6_K if more else Q4_K),
        ]
    return pairs, tensors


SAFE_BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "F4": 4, "U8": 8}


def safetensors(shapes: Mapping[str, tuple[int, ...]], kind: str = "BF16") -> tuple[bytes, int]:
    """Return length and header of a file, and the bytes of data that belong after them."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        start, end = end, end + count * SAFE_BITS[kind] // 8
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw, end


def write_safetensors(path: Path, header: tuple[bytes, int]) -> Path:
    return write_gguf(path, header)


def llama_shapes(
    *, layers: int, hidden: int, cached: int, width: int, vocab: int, tied: bool
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a Llama in a checkpoint of transformers."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    if not tied:
        shapes["lm_head.weight"] = (vocab, hidden)
    for i in range(layers):
        block = f"model.layers.{i}."
        shapes |= {
            block + "self_attn.q_proj.weight": (hidden, hidden),
            block + "self_attn.k_proj.weight": (cached, hidden),
            block + "self_attn.v_proj.weight": (cached, hidden),
            block + "self_attn.o_proj.weight": (hidden, hidden),
            block + "mlp.gate_proj.weight": (width, hidden),
            block + "mlp.up_proj.weight": (width, hidden),
            block + "mlp.down_proj.weight": (hidden, width),
            block + "input_layernorm.weight": (hidden,),
            block + "post_attention_layernorm.weight": (hidden,),
        }
    return shapes
