"""Reads the header of a GGUF file, metadata and tensor table, but never the weights.

Format: github ggml-org/ggml, docs/gguf.md (MIT), versions 2 and 3, little-endian: magic, version,
number of tensors, number of metadata pairs; the pairs; the tensors with dimensions, type and
offset; then the data. Version 1 (2023) had 32-bit counts and is refused.
"""

import struct
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from advisor.architecture.weights.gguf_bytes import gguf_facts
from advisor.architecture.weights.tensor_table import (
    MAX_ELEMENTS,
    MAX_NAME,
    Tensor,
    TensorTable,
    element_count,
    refuse,
    weights,
)

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
MAX_DIMENSIONS: Final = 4
"""``GGML_MAX_DIMS``."""
MAX_PAIRS: Final = 10_000
MAX_KEY: Final = 65_535
"""Longest key that the format allows. [bytes]"""
MAX_HEADER_BYTES: Final = 100_000_000
MAX_STRINGS: Final = 1_000_000
"""Most strings in skipped arrays, enough for tokens and merges of the largest tokenizers."""
KEPT_TEXT: Final = 4_096
KEPT_ITEMS: Final = 4_096
"""Longer texts and arrays (templates, tokens) are skipped."""
MAX_KEPT_BYTES: Final = 16_000_000
"""Most memory for the kept keys, names, texts and numbers. [bytes]"""
NUMBER_BYTES: Final = 40
MAX_TENSORS: Final = 50_000
"""Most tensors. This format stores experts as one tensor; published files have about 2,000."""
DEFAULT_ALIGNMENT: Final = 32
MAX_ALIGNMENT: Final = 1 << 20

_SCALARS: Final[dict[int, struct.Struct]] = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"),
    3: struct.Struct("<h"), 4: struct.Struct("<I"), 5: struct.Struct("<i"),
    6: struct.Struct("<f"), 7: struct.Struct("<?"), 10: struct.Struct("<Q"),
    11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
_U32: Final = _SCALARS[4]
_U64: Final = _SCALARS[10]

Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...]


class GgufHeader(NamedTuple):
    """The header of one file."""

    version: int
    metadata: dict[str, Value]
    """Scalars, short texts and short arrays of numbers; longer values are left out."""
    table: TensorTable


def read_gguf(path: Path) -> GgufHeader:
    """Return the metadata and the tensor table of a GGUF file, shapes slowest dimension first.

    Raises InputError if the file cannot be read, is truncated or violates the format.
    """
    with weights(path) as (stream, size):
        return _header(_Cursor(stream, size))


class _Cursor:
    """Reads a file forward, never beyond its end or the largest header."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self.size = size
        self.position = 0
        self._strings = 0
        self._kept = 0

    def _advance(self, count: int) -> None:
        self.position += count
        if self.position > self.size:
            refuse("the GGUF file is truncated", f"{self.size:,} bytes", "a complete .gguf file")
        if self.position > MAX_HEADER_BYTES:
            most = f"{MAX_HEADER_BYTES:,} bytes"
            refuse("the GGUF header is too large", f"over {most}", f"at most {most}")

    def take(self, count: int) -> bytes:
        self._advance(count)
        data = self._stream.read(count)
        if len(data) != count:
            refuse("the GGUF file is truncated", f"{self.size:,} bytes", "a complete .gguf file")
        return data

    def skip(self, count: int) -> None:
        self._advance(count)
        self._stream.seek(count, 1)

    def u32(self) -> int:
        value: int = _U32.unpack(self.take(4))[0]
        return value

    def u64(self) -> int:
        value: int = _U64.unpack(self.take(8))[0]
        return value

    def text(self, *, longest: int, what: str) -> str:
        length = self.u64()
        if length > longest:
            refuse(f"{what} is too long", f"{length:,} bytes", f"at most {longest:,} bytes")
        self.keep(length)
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            refuse(f"{what} is not UTF-8 text", f"byte {self.position:,}", "UTF-8")

    def keep(self, size: int) -> None:
        """Count the bytes that will be kept in memory."""
        self._kept += size
        if self._kept > MAX_KEPT_BYTES:
            most = f"at most {MAX_KEPT_BYTES:,} bytes"
            refuse("the GGUF file has too much metadata", f"{self._kept:,} bytes", most)

    def skip_strings(self, count: int) -> None:
        self._strings += count
        if self._strings > MAX_STRINGS:
            most = f"at most {MAX_STRINGS:,}"
            refuse("the GGUF metadata holds too many strings", self._strings, most)
        for _ in range(count):
            if length := self.u64():
                self.skip(length)


def _header(cursor: _Cursor) -> GgufHeader:
    magic = cursor.take(4)
    if magic != MAGIC:
        refuse("this is not a GGUF file", magic, "the letters GGUF at its start")
    version = cursor.u32()
    if version not in VERSIONS:
        reverse = int.from_bytes(version.to_bytes(4, "little"), "big")
        what = "a big-endian GGUF file" if reverse in VERSIONS else "an unknown GGUF version"
        refuse(f"this is {what}", version, "little-endian version 2 or 3")
    tensors, pairs = cursor.u64(), cursor.u64()
    if tensors > MAX_TENSORS:
        refuse("the GGUF file has too many tensors", tensors, f"at most {MAX_TENSORS:,}")
    if pairs > MAX_PAIRS:
        refuse("the GGUF file has too much metadata", pairs, f"at most {MAX_PAIRS:,} pairs")
    metadata: dict[str, Value] = {}
    seen: set[str] = set()
    for _ in range(pairs):
        key = cursor.text(longest=MAX_KEY, what="a metadata key")
        if key in seen:
            refuse("a metadata key appears twice", key[:60], "each key once")
        seen.add(key)
        value = _value(cursor, cursor.u32())
        if value is not None:
            metadata[key] = value
    return GgufHeader(version, metadata, _table(cursor, tensors, _alignment(metadata)))


def _value(cursor: _Cursor, kind: int) -> Value | None:
    """Return one metadata value; None if it is too long to matter."""
    if kind in _SCALARS:
        scalar = _SCALARS[kind]
        value: Scalar = scalar.unpack(cursor.take(scalar.size))[0]
        return value
    if kind == _STRING:
        length = cursor.u64()
        if length > KEPT_TEXT:
            cursor.skip(length)
            return None
        cursor.keep(length)
        # A name in another encoding does not change any size.
        return cursor.take(length).decode("utf-8", errors="replace")
    if kind == _ARRAY:
        return _array(cursor)
    return refuse("a metadata value has an unknown type", kind, "types 0 to 12")


def _array(cursor: _Cursor) -> tuple[Scalar, ...] | None:
    kind, count = cursor.u32(), cursor.u64()
    if kind in _SCALARS:
        scalar = _SCALARS[kind]
        if count > KEPT_ITEMS:
            cursor.skip(count * scalar.size)
            return None
        cursor.keep(count * NUMBER_BYTES)
        data = cursor.take(count * scalar.size)
        return tuple(item[0] for item in scalar.iter_unpack(data))
    if kind == _STRING:
        cursor.skip_strings(count)
        return None
    # llama.cpp reads no arrays in arrays either.
    return refuse("a metadata array has an unknown type", kind, "numbers or strings")


def _alignment(metadata: dict[str, Value]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not 8 <= value <= MAX_ALIGNMENT
        or value % 8
    ):
        refuse("general.alignment is unusable", value, "a multiple of 8")
    return value


def _table(cursor: _Cursor, count: int, alignment: int) -> TensorTable:
    placed: list[tuple[int, Tensor]] = []
    names: set[str] = set()
    for _ in range(count):
        name = cursor.text(longest=MAX_NAME, what="a tensor's name")
        if name in names:
            refuse("a tensor appears twice", name[:60], "each name once")
        names.add(name)
        tensor = _tensor(cursor, name)
        offset = cursor.u64()
        if offset % alignment or offset > 8 * MAX_ELEMENTS:
            refuse(f"tensor {name[:60]} has an unusable offset", offset, f"n x {alignment}")
        placed.append((offset, tensor))
    if not placed:
        refuse("the GGUF file holds no tensors", 0, "a model's weights")
    data = -(-cursor.position // alignment) * alignment
    end = 0
    for offset, tensor in sorted(placed):
        if offset < end:
            refuse(f"tensor {tensor.name[:60]} overlaps another", offset, f"{end:,} or more")
        end = offset + tensor.bytes
    if data + end > cursor.size:
        refuse("the GGUF file is truncated", f"{cursor.size:,} bytes", f"{data + end:,} bytes")
    return TensorTable(tuple(tensor for _, tensor in placed))


def _tensor(cursor: _Cursor, name: str) -> Tensor:
    shown = name[:60]
    dimensions = cursor.u32()
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        refuse(f"tensor {shown} has unusable dimensions", dimensions, f"1 to {MAX_DIMENSIONS}")
    sizes = tuple(cursor.u64() for _ in range(dimensions))
    if not all(0 < size <= MAX_ELEMENTS for size in sizes):
        refuse(f"tensor {shown} has an unusable shape", sizes, f"1 to {MAX_ELEMENTS:,} each")
    kind = cursor.u32()
    types = gguf_facts().types
    if kind not in types:
        refuse(f"tensor {shown} has an unknown type", kind, "a tensor type of ggml")
    layout = types[kind]
    if sizes[0] % layout.block:
        refuse(f"tensor {shown} has a broken row", sizes[0], f"a multiple of {layout.block}")
    count = element_count(name, sizes)
    return Tensor(name, sizes[::-1], layout.name, count, count // layout.block * layout.block_bytes)
