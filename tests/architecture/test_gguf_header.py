"""GGUF headers: exact bytes, and every broken one refused in a sentence."""

from __future__ import annotations

import struct
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.architecture.weights.gguf_header import read_gguf
from advisor.errors import AdvisorError, InputError
from tests.weights import F16, F32, Q4_K, Q6_K, GgufValue, gguf, info, pair, text, write_gguf

TENSORS = [
    ("token_embd.weight", (512, 100), Q6_K),
    ("blk.0.attn_q.weight", (512, 256), Q4_K),
    ("blk.0.attn_norm.weight", (512,), F32),
    ("output.weight", (512, 3), F16),
]


@pytest.mark.parametrize("version", [2, 3])
def test_tables_are_exact(tmp_path: Path, version: int) -> None:
    pairs: dict[str, GgufValue] = {
        "general.architecture": "llama",
        "general.alignment": 32,
        "llama.heads": [8, 8, 4],
        "tokenizer.ggml.tokens": ["<s>", "é", ""],
        "eps": 1e-5,
    }
    header = read_gguf(write_gguf(tmp_path / "a", gguf(pairs, TENSORS, version=version)))

    # 51,200 values in 200 blocks of 210 bytes; 131,072 in 512 of 144; 512 x 4; 1,536 x 2.
    assert [tensor.bytes for tensor in header.table.tensors] == [42_000, 73_728, 2_048, 3_072]
    assert header.table.elements == 51_200 + 131_072 + 512 + 1_536
    assert header.table.bytes_by_type() == {
        "q4_k": 73_728,
        "q6_k": 42_000,
        "f16": 3_072,
        "f32": 2_048,
    }
    assert header.table.shapes()["token_embd.weight"] == (100, 512)
    assert header.version == version
    assert header.metadata["general.architecture"] == "llama"
    assert header.metadata["llama.heads"] == (8, 8, 4)
    # Vocabularies are passed over.
    assert "tokenizer.ggml.tokens" not in header.metadata


def head(tensors: int, pairs: int, *rest: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + b"".join(rest)


def one(name: str | bytes, shape: tuple[int, ...], kind: int, offset: int = 0) -> bytes:
    return head(1, 0, info(name, shape, kind, offset)) + b"\0" * 4096


NESTED = text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000

BROKEN = {
    "empty": (b"", "truncated"),
    "magic": (b"GGML" + b"\0" * 60, "not a GGUF file"),
    "magic alone": (b"GGUF", "truncated"),
    "version 1": (head(1, 0, version=1), "unknown GGUF version"),
    "big-endian": (b"GGUF" + struct.pack(">I", 3) + b"\0" * 16, "big-endian"),
    "2^63 tensors": (head(2**63, 0), "too many tensors"),
    "2^63 pairs": (head(0, 2**63), "too much metadata"),
    "no tensors": (head(0, 0), "holds no tensors"),
    "pairs missing": (head(0, 5), "truncated"),
    "tensors missing": (head(5, 0), "truncated"),
    "key of -1 bytes": (head(0, 1, struct.pack("<q", -1)), "key is too long"),
    "key not UTF-8": (head(0, 1, pair(b"\xff\xfe", 1)), "key is not UTF-8"),
    "key twice": (head(0, 2, pair("a", 1), pair("a", 2)), "appears twice"),
    "value type": (head(0, 1, text("a"), struct.pack("<I", 99)), "unknown type"),
    "text of 2^63 bytes": (head(0, 1, text("a"), struct.pack("<IQ", 8, 2**63)), "truncated"),
    "array of 2^63 numbers": (head(0, 1, text("a"), struct.pack("<IIQ", 9, 4, 2**63)), "truncated"),
    "array of 2^63 texts": (head(0, 1, text("a"), struct.pack("<IIQ", 9, 8, 2**63)), "too many"),
    "texts of 2^63": (head(0, 1, text("a"), struct.pack("<IIQQ", 9, 8, 1, 2**63)), "truncated"),
    "arrays in arrays": (head(0, 1, NESTED), "array has an unknown type"),
    "alignment 0": (head(0, 1, pair("general.alignment", 0)), "general.alignment"),
    "alignment text": (head(0, 1, pair("general.alignment", "32")), "general.alignment"),
    "name too long": (one("x" * 1000, (256,), F32), "name is too long"),
    "name not UTF-8": (one(b"\xc3\x28", (256,), F32), "not UTF-8"),
    "name twice": (
        head(2, 0, info("a", (8,), F32, 0), info("a", (8,), F32, 32)) + b"\0" * 512,
        "appears twice",
    ),
    "no dimensions": (one("a", (), F32), "unusable dimensions"),
    "five dimensions": (one("a", (2, 2, 2, 2, 2), F32), "unusable dimensions"),
    "2^63 columns": (one("a", (2**63,), F32), "unusable shape"),
    "no columns": (one("a", (0, 5), F32), "unusable shape"),
    "product": (one("a", (2**40, 2**40), F32), "too large"),
    "type": (one("a", (256,), 4), "unknown type"),
    "type 2^31": (one("a", (256,), 2**31), "unknown type"),
    "row": (one("a", (100,), Q4_K), "broken row"),
    "offset": (one("a", (256,), F32, 7), "unusable offset"),
    "offset 2^63": (one("a", (256,), F32, 2**63), "unusable offset"),
    "outside": (one("a", (256,), F32, 1 << 30), "truncated"),
    "overlap": (
        head(2, 0, info("a", (256,), F32, 0), info("b", (256,), F32, 32)) + b"\0" * 8192,
        "overlaps",
    ),
}


@pytest.mark.parametrize(("raw", "sentence"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_at_once(tmp_path: Path, raw: bytes, sentence: str) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(raw)
    start = time.process_time()
    with pytest.raises(InputError, match=sentence) as caught:
        read_gguf(file)
    assert time.process_time() - start < 1
    assert caught.value.field == "model.config"
    assert caught.value.remedy


def test_a_header_of_empty_strings_is_refused_within_a_second(tmp_path: Path) -> None:
    count = 1_000_000
    arrays = [
        text(f"a{i}") + struct.pack("<IIQ", 9, 8, count // 3) + b"\0" * (8 * (count // 3))
        for i in range(4)
    ]
    file = tmp_path / "model.gguf"
    file.write_bytes(head(1, 4, *arrays))
    start = time.process_time()
    with pytest.raises(InputError, match="too many strings"):
        read_gguf(file)
    assert time.process_time() - start < 1


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    raw, data = gguf({"general.architecture": "llama", "n": 3}, TENSORS[:2])
    whole = raw + b"\0" * data
    file = tmp_path / "model.gguf"
    for length in [*range(len(raw)), len(whole) - 33]:
        file.write_bytes(whole[:length])
        with pytest.raises(InputError):
            read_gguf(file)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(InputError):
            read_gguf(path)


RAW = b"".join([gguf({"general.architecture": "llama", "n": [1, 2]}, TENSORS)[0], b"\0" * 130_000])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 400),
    change=st.one_of(st.binary(min_size=1, max_size=8), st.just(b"\xff" * 8)),
)
def test_changed_bytes_raise_nothing_else(tmp_path: Path, place: int, change: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(RAW[:place] + change + RAW[place + len(change) :])
    with suppress(AdvisorError):
        read_gguf(file)
