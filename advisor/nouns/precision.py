"""Copies of the parameters during training, and formats of served weights and caches.

The names, with their real bits per element, are rows of ``data/number_formats.json``.
"""

from collections.abc import Iterator
from typing import Final

from advisor.errors import refusal
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.units import BITS_PER_BYTE


class WeightFormat(Noun):
    """How served or frozen weights are stored."""

    name: str
    title: str
    bytes_per_parameter: float
    """Size of one parameter, including scales and zero-points. [bytes]"""
    compute: str
    """Format of the matrix product: weight-only formats multiply in 16 bits."""
    note: str = ""
    mixture: bool = False
    """Whether it is a GGUF file: every matrix is quantised, including embedding and head, by the
    rules of ``data/gguf.yaml``. ``bytes_per_parameter`` is then the
    value of Llama 3.1 8B."""
    whole: bool = False
    """Whether every matrix is quantised, embedding and head too, and ``bytes_per_parameter`` is the
    mean over the whole file."""
    common_bytes_per_parameter: float | None = None
    """Of matrices outside the routed experts, where such a file keeps more bits of them. [bytes]"""
    head_bytes_per_parameter: float | None = None
    """Of a head that is quantised apart from the blocks. [bytes]"""
    expanded: bool = False
    """Whether kernels write the weights out in 16 bits before a product of several rows
    (bitsandbytes ``MatMul4Bit``: ``dequantize_4bit``, then ``linear``; one row has its own kernel,
    ``gemv_4bit``)."""
    padded_to: tuple[tuple[str, tuple[int, int]], ...] = ()
    """Multiples to which servers' kernels round up the widths of a routed expert, by generation of
    the card: outside it, as wide as the stream, and inside it on one rank."""
    engine: str = ""
    """Section of ``engines`` in the calibration for the engine that reads the format; empty for
    servers."""

    @property
    def unpacked(self) -> bool:
        """Return whether kernels unpack the weights for 16-bit products as they read them."""
        wide = FORMAT_BYTES[self.compute] >= FORMAT_BYTES["bf16"] > self.bytes_per_parameter
        return wide and not self.expanded


GGUF_ENGINE: Final = "llama_cpp"
"""Section of ``engines`` for the engine that serves GGUF files."""
MLX_ENGINE: Final = "mlx"
"""The same for files of MLX."""
EXL_ENGINES: Final = {"exl2": "exllamav2", "exl3": "exllamav3"}
"""The same for files of ExLlama, by how the names of their formats begin."""


class PrecisionRecipe(Noun):
    """The copies of the parameters during training, and their formats."""

    name: str
    title: str
    compute: str
    """Format of the matrix products."""
    working: str
    """Format of the weights that the forward pass reads."""
    master: str | None = None
    """Format of a separate high-precision copy that the optimizer updates; None without one."""
    gradients: str
    optimizer_states: str
    stream: str
    """Format of the residual stream between blocks."""
    autocast: bool = False
    """Whether fp32 weights are cast on the fly, so that the casts are saved for backward."""

    @property
    def element_bytes(self) -> float:
        """Size of one element that modules pass on: 16 bits where products read fewer. [bytes]"""
        return max(FORMAT_BYTES["bf16"], FORMAT_BYTES[self.compute])

    @property
    def single(self) -> bool:
        """Whether everything has 32 bits, whatever the products round to."""
        return self.element_bytes == FORMAT_BYTES["fp32"]


class NumberFormats(Noun):
    """Content of the file."""

    about: tuple[str, ...]
    bytes: dict[str, float]
    weights: dict[str, dict[str, object]]
    gguf: dict[str, float]
    mlx: dict[str, float]
    exl: dict[str, float]
    exl_head_bits: float
    spelled: dict[str, str]
    caches: dict[str, float]
    recipes: dict[str, dict[str, object]]


def _stored(file: NumberFormats) -> Iterator[WeightFormat]:
    """Yield the formats of weights; files of llama.cpp and MLX store every matrix in theirs."""
    for name, fields in file.weights.items():
        yield WeightFormat.model_validate({"name": name, **fields})
    for name, bits in file.gguf.items():
        yield WeightFormat(
            name=name,
            title=f"{name.upper()} (GGUF)",
            bytes_per_parameter=bits / BITS_PER_BYTE,
            compute="fp16",
            note="llama.cpp's mixture of types; scales included",
            mixture=True,
            engine=GGUF_ENGINE,
        )
    for name, bits in file.mlx.items():
        yield WeightFormat(
            name=name,
            title=f"MLX {int(bits)} bit (groups of 64)",
            bytes_per_parameter=bits / BITS_PER_BYTE,
            compute="fp16",
            note="Apple silicon; one fp16 scale and one fp16 offset for 64 weights",
            whole=True,
            engine=MLX_ENGINE,
        )
    for name, bits in file.exl.items():
        kind = name.partition("_")[0]
        yield WeightFormat(
            name=name,
            title=f"{kind.upper()} {bits:g} bits",
            bytes_per_parameter=bits / BITS_PER_BYTE,
            compute="fp16",
            note=f"ExLlama; the head in {file.exl_head_bits:g} bits, embeddings in fp16",
            head_bytes_per_parameter=file.exl_head_bits / BITS_PER_BYTE,
            engine=EXL_ENGINES[kind],
        )


number_formats = shipped("number_formats.json", NumberFormats)

FORMAT_BYTES: Final = number_formats().bytes
"""Bytes of one element without scales. [bytes]"""
WEIGHT_FORMATS: Final = {item.name: item for item in _stored(number_formats())}
"""Storage formats of weights by name."""
KV_CACHE_FORMATS: Final = number_formats().caches
SPELLED: Final = number_formats().spelled
"""Other words for formats of weights and caches."""


def formats_served(weights: str, cache: str | None) -> str:
    """Return the formats of weights and of a cache with fewer than 16 bits, in words."""
    narrow = KV_CACHE_FORMATS.get(cache or "bf16", 2.0) < KV_CACHE_FORMATS["bf16"]
    return f"{weights}, cache in {cache}" if narrow else weights


"""Bytes of one cached element. [bytes]"""
RECIPES: Final = {
    name: PrecisionRecipe.model_validate({"name": name, **fields})
    for name, fields in number_formats().recipes.items()
}
"""Named training recipes."""


def recipe_named(name: str) -> PrecisionRecipe:
    """Return the recipe ``name``; ``InputError`` with the existing ones if it is unknown."""
    if name not in RECIPES:
        raise refusal("unknown_precision", value=name, allowed=[*RECIPES])
    return RECIPES[name]
