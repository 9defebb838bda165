"""Vision towers of models that read images in their prompts: published facts."""

from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import Field

from advisor.foundation.data_files import read_yaml
from advisor.foundation.noun import Noun, checked, shipped
from advisor.foundation.resources import data_path

VISION_TOWERS: Final = "vision_towers.yaml"
_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class VisionTower(Noun):
    """Shape of a tower, and the tokens of an image; the data file explains each field."""

    title: str
    match: tuple[str, ...]
    texts: tuple[str, ...]
    unit: int
    least: int
    most: int
    rounds_up: bool = False
    unit_tokens: int = 1
    row_tokens: int = 0
    around: int = 0
    thumbnail: bool = False
    unit_patches: int
    hidden: int
    layers: int
    full_layers: int
    window: int = 0
    width: int
    matrices: int
    projector: tuple[int, int]
    projectors: int = 1
    beside: int = 0
    source: str

    @property
    def block_parameters(self) -> int:
        """Parameters of the matrices of all blocks."""
        return self.layers * self.hidden * (4 * self.hidden + self.matrices * self.width)

    def projector_parameters(self, text_hidden: int) -> int:
        """Return the parameters between the tower and a text of this width."""
        first, inner = self.projector
        return self.projectors * inner * (first + text_hidden)


class ImageWork(Noun):
    """What the images of one request take; follows from the model and their size."""

    tokens: Annotated[int, Field(ge=1)]
    """The prompt's length includes them."""
    flops: _Positive
    tower_bytes: _Positive
    """Weights of the tower, in 16 bits. [bytes]"""
    host_s: _Positive
    """To prepare the images on the host, before the first token. [s]"""
    side: Annotated[int, Field(ge=1)]
    """Of one image as the tower sees it. [pixels]"""


class _TowerFile(Noun):
    default_side: int
    host_ms_per_megapixel: _Positive
    host_source: str
    towers: tuple[VisionTower, ...]


vision_towers = shipped(VISION_TOWERS, _TowerFile)


@lru_cache(maxsize=128)  # every estimate of a served model asks
def tower_before(words: str, text: str) -> VisionTower | None:
    """Return the tower before a text of that hidden size x layers; None if none is described.

    ``words``: family and names of the model, in lower case.
    """
    # Checking the whole file takes longer than reading it, and most models read no images.
    content: Any = read_yaml(data_path(VISION_TOWERS))
    for row in content["towers"]:
        if text in row["texts"] and any(word in words for word in row["match"]):
            return checked(VisionTower.model_validate, row, file=VISION_TOWERS)
    return None
