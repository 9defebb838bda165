"""How a plan's accelerators divide into servers."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Final

from advisor.architecture.pairs import writes_apart
from advisor.export.engines.programs import Build, Program, Weights
from advisor.export.setup import Setup
from advisor.nouns.hardware import UnlikeCards
from advisor.nouns.precision import WEIGHT_FORMATS
from advisor.nouns.workload import Serving

DISK_MARGIN: Final = 1.2
"""Disk for weights over their size. Assumed: a download keeps partial files beside whole ones."""
SOFTWARE_DISK_BYTES: Final = 60e9
"""Disk for system, image and packages. Assumed: images with CUDA and PyTorch unpack to 20-30 GB.
[bytes]"""


@dataclass(frozen=True)
class Servers:
    """The servers of a plan: each runs one or more copies of the model.

    ``apart`` asks for servers as small as possible, which Kubernetes can then multiply.
    """

    setup: Setup
    apart: bool = False

    @property
    def program(self) -> Program:
        """The program."""
        assert self.setup.program is not None
        return self.setup.program

    @property
    def backend(self) -> str:
        """What carries the program's kernels to the plan's card."""
        found = self.program.backend(self.setup.accelerator)
        assert found is not None  # `choice.program_for` takes only programs that a file starts
        return found

    @property
    def build(self) -> Build:
        """What brings the program to the plan's card."""
        return self.program.backends[self.backend]

    @property
    def workload(self) -> Serving:
        """The work, with lengths fitted to the model."""
        assert isinstance(self.setup.workload, Serving)
        return self.setup.workload

    @property
    def copy_cards(self) -> int:
        """Accelerators of one copy of the model."""
        layout = self.setup.estimate.layout
        return layout.tensor * layout.pipeline

    @cached_property
    def copies(self) -> int:
        """Copies of the model in one server.

        Copies that share experts serve together; others together on each machine if the program
        can do that. Copies of a mixture of experts that share none stay apart, because vLLM divides
        the experts over all copies of a server (docs/serving/data_parallel_deployment.md).
        """
        layout, per_machine = self.setup.estimate.layout, self.setup.per_machine
        if layout.expert > 1:
            return layout.expert
        mixture = self.setup.model.expert_parameters > 0
        together = self.program.copies and not self.build.ranks
        if self.apart or mixture or not together or self.copy_cards > per_machine:
            return 1
        return per_machine // self.copy_cards

    @property
    def cards(self) -> int:
        """Accelerators of one server."""
        return self.copies * self.copy_cards

    @property
    def machines(self) -> int:
        """Machines that one server spans."""
        return ceil(self.cards / self.setup.per_machine)

    @property
    def cards_each(self) -> int:
        """Accelerators of one server on each of its machines."""
        card = self.setup.accelerator
        parts = len(card.parts) if isinstance(card, UnlikeCards) else 1
        return parts * self.cards // self.machines

    @property
    def ranks(self) -> int:
        """Ranks of the program on one card."""
        return self.build.ranks.get(self.setup.accelerator.architecture, 1)

    def visible(self, index: int) -> str:
        """Return the numbers that a server of a machine sees, as a vendor's variable lists them."""
        each = self.cards_each * self.ranks
        return ",".join(map(str, range(index * each, (index + 1) * each)))

    @property
    def count(self) -> int:
        """Number of servers, the spare ones included."""
        return self.setup.estimate.cards // self.cards

    @property
    def on_each_machine(self) -> int:
        """Servers on one machine; 1 for a server that spans several."""
        return max(1, self.setup.per_machine // self.cards)

    @property
    def download_bytes(self) -> float:
        """Size of the weights that a server loads. [bytes]"""
        setup, stated = self.setup, weights_of(self)
        kept = stated.gguf or setup.checkpoint is not None
        name = setup.estimate.precision if kept else setup.model.weight_format
        if name not in WEIGHT_FORMATS:
            name = "bf16"
        return setup.model.total_parameters * WEIGHT_FORMATS[name].bytes_per_parameter

    @property
    def sequences(self) -> int:
        """Requests that one copy of the model runs at once."""
        estimate = self.setup.estimate
        if estimate.serving is not None and (load := estimate.serving.arrivals) is not None:
            # What arrives comes and goes: as many as fit, up to the most that was estimated.
            fitting = estimate.serving.max_concurrency // estimate.layout.data
            held = max(self.program.most, ceil(load.in_flight / estimate.layout.data))
            most = held if estimate.serving.streams else self.workload.concurrency
            return max(1, min(fitting, most))
        return ceil(self.workload.concurrency / estimate.layout.data)

    @property
    def step_tokens(self) -> int:
        """Tokens that one step reads and writes at most."""
        facts, card = self.setup.calibration.serving, self.setup.accelerator
        large = card.memory_reported_bytes >= facts.large_memory_bytes
        usual = facts.batched_tokens if large else facts.small_batched_tokens
        return self.workload.step_tokens or usual

    @property
    def context(self) -> int:
        """Tokens of one request, as the program counts them.

        A pair's encoder reads the prompt apart, so its server counts the decoder's positions
        alone: Whisper has 448, and a server refuses more.
        """
        if not self.setup.model.generates:
            return self.workload.input_tokens
        if writes_apart(self.setup.model):
            return self.setup.model.max_position_embeddings or self.workload.output_tokens
        return self.workload.input_tokens + self.workload.output_tokens

    @property
    def disk_bytes(self) -> float:
        """Disk that a machine needs: weights with their margin, and the software. [bytes]"""
        return DISK_MARGIN * self.download_bytes + SOFTWARE_DISK_BYTES


def weights_of(servers: Servers) -> Weights:
    """Return how the program is told the plan's weight format."""
    found = servers.program.states(servers.setup.estimate.precision)
    assert found is not None  # `choice.expressed` takes only formats that it has
    return found
