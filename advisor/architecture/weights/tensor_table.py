"""The tensor table of a weights file: names, shapes and exact bytes, from the header only."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, NoReturn

from advisor.architecture.config.fields import MAX_CONFIG_BYTES
from advisor.errors import InputError
from advisor.foundation.files.reading import opened

MAX_TENSORS: Final = 200_000
"""Largest accepted table; the largest published models have about 100,000 tensors."""
MAX_DIMENSIONS: Final = 8
MAX_ELEMENTS: Final = 2**53
"""Largest accepted tensor and file. [elements]"""
MAX_NAME: Final = 512
"""Longest accepted tensor name. [characters]"""

REMEDY: Final = "Download the file again, or give the model's config.json instead."


class Tensor(NamedTuple):
    """One tensor of a file."""

    name: str
    shape: tuple[int, ...]
    """Slowest dimension first, as PyTorch prints it."""
    type: str
    """Storage type in lower case: ``bf16``, ``f8_e4m3``, ``q4_k``, ..."""
    elements: int
    bytes: int
    """Size, including scales inside blocks. [bytes]"""


class TensorTable(NamedTuple):
    """All tensors of one or several files."""

    tensors: tuple[Tensor, ...]

    @property
    def elements(self) -> int:
        """Number of elements in all tensors."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def bytes(self) -> int:
        """Size of all tensors. [bytes]"""
        return sum(tensor.bytes for tensor in self.tensors)

    def bytes_by_type(self) -> dict[str, int]:
        """Size of the tensors of each storage type, largest first. [bytes]"""
        found: dict[str, int] = {}
        for tensor in self.tensors:
            found[tensor.type] = found.get(tensor.type, 0) + tensor.bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes by name."""
        return {tensor.name: tensor.shape for tensor in self.tensors}


def joined(tables: Iterable[TensorTable]) -> TensorTable:
    """Return the table of a model whose tensors are in several files.

    Raises InputError if two files hold a tensor of the same name.
    """
    tensors: dict[str, Tensor] = {}
    for table in tables:
        for tensor in table.tensors:
            if tensor.name in tensors:
                refuse("two parts of the model hold the same tensor", tensor.name, "each once")
            tensors[tensor.name] = tensor
    return TensorTable(tuple(tensors.values()))


def weights(path: Path) -> AbstractContextManager[tuple[BinaryIO, int]]:
    """Open a weights file; return the stream and its size in bytes.

    Raises InputError if it is missing, unreadable, or a device or pipe, which might never end.
    """
    return opened(path, allowed="a readable file", remedy="Correct the path.", field="model.config")


def read_start(path: Path, count: int = MAX_CONFIG_BYTES + 1) -> bytes:
    """Return the first ``count`` bytes of a file; by default one more than a config may have.

    Raises InputError if it cannot be read.
    """
    with weights(path) as (stream, _):
        return stream.read(count)


def element_count(name: str, shape: tuple[int, ...]) -> int:
    """Return the number of elements of the shape of the tensor ``name``.

    Raises InputError if there are more than ``MAX_ELEMENTS``.
    """
    count = 1
    for size in shape:
        count *= size
        if count > MAX_ELEMENTS:
            refuse(f"tensor {name[:60]} is too large", shape, f"at most {MAX_ELEMENTS:,} elements")
    return count


def refuse(what: str, value: object, allowed: str, remedy: str = REMEDY) -> NoReturn:
    """Refuse a weights file: ``what`` is wrong, and the ``value`` that was found."""
    raise InputError(what, value=value, allowed=allowed, remedy=remedy, field="model.config")
