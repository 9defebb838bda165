"""What is to be done with the model: pretrain, fine-tune or serve."""

from typing import Annotated

from pydantic import Field

from advisor.nouns.serving import Serving
from advisor.nouns.training import FineTuning, Pretraining

__all__ = ["FineTuning", "Pretraining", "Serving", "Training", "Workload"]

Training = Pretraining | FineTuning
Workload = Annotated[Pretraining | FineTuning | Serving, Field(discriminator="kind")]
