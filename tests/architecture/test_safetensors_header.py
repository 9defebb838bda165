"""Safetensors headers and indices: exact bytes, and every broken one refused in a sentence."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.architecture.weights.safetensors import read_index, read_safetensors, read_shards
from advisor.errors import AdvisorError, InputError
from tests.weights import safetensors, write_safetensors


@pytest.mark.parametrize(
    ("kind", "size"), [("F32", 4 * 33_000), ("BF16", 66_000), ("F8_E4M3", 33_000), ("F4", 16_500)]
)
def test_tables_are_exact(tmp_path: Path, kind: str, size: int) -> None:
    header = safetensors({"a": (100, 320), "b": (1000,), "empty": (0, 7)}, kind)
    table = read_safetensors(write_safetensors(tmp_path / "a", header))
    assert (table.elements, table.bytes) == (33_000, size)
    assert table.bytes_by_type() == {kind.lower(): size}
    assert table.shapes() == {"a": (100, 320), "b": (1000,), "empty": (0, 7)}


def test_scalars_have_one_element(tmp_path: Path) -> None:
    table = read_safetensors(write_safetensors(tmp_path / "a", safetensors({"scale": ()})))
    assert (table.elements, table.bytes) == (1, 2)


def file(header: object, data: int = 0) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + b"\0" * data


def one(**entry: object) -> bytes:
    whole = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | entry
    return file({"a": whole}, 16)


A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

BROKEN = {
    "empty": (b"", "truncated"),
    "seven bytes": (b"\0" * 7, "truncated"),
    "length beyond": ((10**6).to_bytes(8, "little") + b"{}", "truncated"),
    "length 2^63": ((2**63).to_bytes(8, "little") + b"{}", "truncated"),
    "length -1": (b"\xff" * 8 + b"{}", "truncated"),
    "no JSON": (file(b"{hello}"), "not valid JSON"),
    "half JSON": (file(b'{"a": '), "not valid JSON"),
    "not UTF-8": (file(b'{"\xff\xfe": 1}'), "not UTF-8"),
    "list": (file(b"[1, 2]"), "not a JSON object"),
    "number": (file(b"3"), "not a JSON object"),
    "deep": (file(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "more than 20 levels"),
    "deep lists": (file(b"[" * 1_000_000), "more than 20 levels"),
    "many objects": (file(b"{" * 3_000_000), "more than 1,000,000 values"),
    "digits": (file(b'{"a": ' + b"9" * 10_000 + b"}"), "more than 30 digits"),
    "NaN": (file(b'{"a": NaN}'), "holds NaN"),
    "infinity": (file(b'{"a": -Infinity}'), "not described by an object"),
    "name twice": (file(b'{"a": 1, "a": 2}'), "has the key 'a' twice"),
    "field twice": (file(b'{"a": {"dtype": "F32", "dtype": "F16"}}'), "twice"),
    "no tensors": (file({"__metadata__": {"format": "pt"}}), "holds no tensors"),
    "no entry": (file({"a": 1}), "not described by an object"),
    "long name": (file({"x" * 600: A}, 8), "name is too long"),
    "type": (one(dtype="F128"), "unknown type"),
    "type number": (one(dtype=3), "unknown type"),
    "no shape": (one(shape=None), "unusable shape"),
    "negative shape": (one(shape=[-2, -2]), "unusable shape"),
    "fractional shape": (one(shape=[2.0, 2]), "unusable shape"),
    "boolean shape": (one(shape=[True, 4]), "unusable shape"),
    "text shape": (one(shape=["4"]), "unusable shape"),
    "many dimensions": (one(shape=[1] * 100), "unusable shape"),
    "huge shape": (one(shape=[2**40, 2**40]), "too large"),
    "10^30": (one(shape=[10**30]), "more than 30 digits"),
    "no offsets": (one(data_offsets=None), "unusable offsets"),
    "one offset": (one(data_offsets=[0]), "unusable offsets"),
    "negative offset": (one(data_offsets=[-16, 0]), "unusable offsets"),
    "backwards": (one(data_offsets=[16, 0]), "hole"),
    "other bytes": (one(data_offsets=[0, 12]), "other bytes than its shape"),
    "half a byte": (one(dtype="F4", shape=[3], data_offsets=[0, 2]), "on a byte"),
    "truncated": (file({"a": A}, 4), "is truncated"),
    "more than tensors": (file({"a": A}, 40), "bytes that belong to no tensor"),
    "overlap": (file({"a": A, "b": A}, 8), "overlaps another"),
    "hole": (file({"a": A, "b": A | {"data_offsets": [12, 20]}}, 20), "leaves a hole"),
}


@pytest.mark.parametrize(("raw", "sentence"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_at_once(tmp_path: Path, raw: bytes, sentence: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    start = time.process_time()
    with pytest.raises(InputError, match=sentence) as caught:
        read_safetensors(path)
    assert time.process_time() - start < 1
    assert caught.value.field == "model.config"
    assert caught.value.remedy


def test_headers_over_25_mb_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as stream:
        stream.write((25_000_001).to_bytes(8, "little") + b"{")
        stream.truncate(30_000_000)
    with pytest.raises(InputError, match="header is too large"):
        read_safetensors(path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 200), change=st.binary(min_size=1, max_size=6))
def test_changed_bytes_raise_nothing_else(tmp_path: Path, place: int, change: bytes) -> None:
    head, data = safetensors({"a": (4, 4), "b": (8,)})
    raw = head + b"\0" * data
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw[:place] + change + raw[place + len(change) :])
    with suppress(AdvisorError):
        read_safetensors(path)


def index(**changes: object) -> bytes:
    whole: dict[str, object] = {
        "metadata": {"total_size": 40},
        "weight_map": {"a": "1.safetensors", "b": "2.safetensors"},
    }
    return json.dumps(whole | changes).encode()


def test_shards_are_joined(tmp_path: Path) -> None:
    found = read_index(index())
    assert (found.total_bytes, found.files, found.tensors) == (
        40,
        ("1.safetensors", "2.safetensors"),
        2,
    )
    write_safetensors(tmp_path / "1.safetensors", safetensors({"a": (4, 4)}))
    assert read_shards(found, tmp_path) is None
    write_safetensors(tmp_path / "2.safetensors", safetensors({"b": (4,)}))
    table = read_shards(found, tmp_path)
    assert table is not None
    assert (table.elements, table.bytes) == (20, 40)
    write_safetensors(tmp_path / "2.safetensors", safetensors({"a": (4,)}))
    with pytest.raises(InputError, match="hold the same tensor"):
        read_shards(found, tmp_path)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"{", "not valid JSON"),
        (index(weight_map=None), "no weight_map"),
        (index(weight_map=[]), "no weight_map"),
        (index(weight_map={"a": 3}), "unusable file"),
        (index(weight_map={"a": "../secret"}), "unusable file"),
        (index(weight_map={"a": "/etc/passwd"}), "unusable file"),
        (index(weight_map={"a": ""}), "unusable file"),
        (index(weight_map={str(i): str(i) for i in range(1001)}), "too many files"),
        (index(metadata={}), "total_size"),
        (index(metadata={"total_size": -1}), "total_size"),
        (index(metadata={"total_size": "40"}), "total_size"),
        (b'{"weight_map": {"a": "b"}, "metadata": {"total_size": NaN}}', "holds NaN"),
        (b'{"weight_map": {"a": "b"}, "metadata": {"total_size": Infinity}}', "total_size"),
    ],
)
def test_broken_indices(raw: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_index(raw)
