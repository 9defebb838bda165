"""A training workload with every default resolved and stated."""

from collections.abc import Iterator
from typing import Final

from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import refusal
from advisor.estimate.sample import check_sample_fields
from advisor.estimate.training.defaults import (
    default_amount,
    default_batch,
    default_loss,
    default_optimizer,
    usual,
)
from advisor.estimate.training.loading import Loading, resolve_loading
from advisor.estimate.training.switches import MemorySwitches
from advisor.foundation.record import by_identity, record
from advisor.nouns.layout import ParallelLayout, Sharding
from advisor.nouns.precision import PrecisionRecipe
from advisor.nouns.software.delivery import Operator
from advisor.nouns.software.stacks import (
    DEGREES,
    Degree,
    SoftwareStack,
    Work,
    known_stacks,
    stack_named,
    undivided,
    usual_stack,
)
from advisor.nouns.software.tool_offers import TrainingOffer
from advisor.nouns.software.tools import Tool, tool_named
from advisor.nouns.training_choices import (
    LORA_TARGETS,
    AttentionKernel,
    CrossEntropy,
    FineTuningMethod,
    Optimizer,
    Preference,
)
from advisor.nouns.workload import FineTuning, Training

DEFAULT_SEQUENCE_LENGTH = 4096

ADAPTED: Final = (FineTuningMethod.LORA, FineTuningMethod.QLORA)
_REFERENCE: Final = {
    False: "DPO trains on pairs of answers and holds a second, frozen model as reference",
    True: "DPO trains on pairs of answers; the reference is the base model without its adapters",
}


@record
class TrainingRun:
    """A training workload ready for the equations."""

    architecture: ModelArchitecture
    tokens: float
    sequence_length: int
    global_batch: int
    recipe: PrecisionRecipe
    optimizer: Optimizer
    attention: AttentionKernel
    software: str
    """Name of the stack."""
    method: FineTuningMethod | None = None
    """None for pretraining."""
    lora_rank: int = 0
    lora_targets: tuple[str, ...] = ()
    adapts_experts: bool = True
    """Whether adapters are on routed experts, too."""
    assumptions: tuple[str, ...] = ()
    switches: MemorySwitches = MemorySwitches()
    document_length: int | None = None
    """Tokens within which attention stays; None for whole sequences."""
    evaluation_tokens: float = 0.0
    """Evaluated during the run, in the same unit as ``tokens``."""
    cross_entropy: CrossEntropy | None = None
    """None takes the software's default."""
    preference: Preference | None = None
    loading: Loading | None = None
    """How images are loaded; None if the step waits for none."""
    operator: Operator = Operator.TENANT
    offers: tuple[TrainingOffer, ...] = ()
    """What the tools offer that may run it; empty restricts layouts to what the stack divides."""

    @property
    def unit(self) -> Unit:
        """The unit of ``tokens``. If it is not a token, ``sequence_length`` is 1."""
        return self.architecture.unit

    @property
    def attended_length(self) -> int:
        """Tokens of the stretch within which attention stays."""
        return min(self.sequence_length, self.document_length or self.sequence_length)

    @property
    def stack(self) -> SoftwareStack:
        """Facts of the software."""
        return stack_named(self.software)

    @property
    def divides(self) -> tuple[Degree, ...]:
        """Degrees of a layout that the software offers besides data parallelism."""
        if not self.offers:
            return self.stack.divides
        return tuple(name for name in DEGREES if any(name in one.divides for one in self.offers))

    @property
    def four_bit(self) -> bool:
        """Whether the base weights have 4 bits."""
        return self.method is FineTuningMethod.QLORA

    @property
    def shardings(self) -> tuple[tuple[Sharding, ...], ...]:
        """Sharding levels for these weights, for each tool."""
        if not self.offers:
            return (tuple(Sharding),)
        return tuple(offer.shardings(four_bit=self.four_bit) for offer in self.offers)

    @property
    def offloads(self) -> bool:
        """Whether the software can use the host's memory."""
        return not self.offers or any(offer.offloads for offer in self.offers)

    def offer_of(self, tool: Tool | None) -> TrainingOffer | None:
        """Return what a tool offers for this run; None if it does not train."""
        if tool is None:
            return None
        asked = self.method, self.preference, self.attention, self.optimizer
        return _offered(tool, self.architecture, *asked, self.recipe)

    def allows(self, layout: ParallelLayout) -> bool:
        """Whether the software offers all that a layout asks."""
        if not self.offers:
            return not undivided(self.stack, layout)
        return any(not one.lacking(layout, four_bit=self.four_bit) for one in self.offers)

    @property
    def processor_slowdown(self) -> float:
        """Step time on a processor over that of tuned code, and the factor that widens it."""
        tokens = self.unit is Unit.TOKEN and not self.recipe.single
        return self.stack.processor_slowdown if tokens else 1.0

    @property
    def frozen(self) -> bool:
        """Whether the base weights are frozen and only adapters train."""
        return self.method in ADAPTED

    @property
    def tokens_per_step(self) -> float:
        """Tokens per optimizer step. [tokens]"""
        return float(self.global_batch * self.tokens_per_sample)

    @property
    def tokens_per_sample(self) -> int:
        """Tokens of one item of ``global_batch`` and ``micro_batch``: a sequence, or a pair."""
        return self.sequence_length * (1 if self.preference is None else 2)

    @property
    def has_reference(self) -> bool:
        """Whether a second, frozen model runs forward; adapters would be switched off instead."""
        return self.preference is Preference.DPO and not self.frozen

    @property
    def reference_passes(self) -> float:
        """Forward passes of a step besides those of training."""
        return float(self.preference is Preference.DPO)


@by_identity(256)
def resolve_training(
    workload: Training,
    architecture: ModelArchitecture,
    recipe: PrecisionRecipe,
    tool: Tool | None = None,
) -> TrainingRun:
    """Fill in the fields that the user left open, and note each assumption.

    Raises InputError if the sequence is longer than the model's learned positions allow.

    ``recipe``: the recipe to use; the caller chooses it if the workload does not. ``tool``: what
    runs the training. Default: the stack alone, without its tools' limits.
    """
    notes: list[str] = []
    sequence = _sequence_length(workload, architecture, notes)
    tuned = workload if isinstance(workload, FineTuning) else None
    method, preference = (tuned.method, tuned.preference) if tuned else (None, None)
    if tuned:
        _check_targets(tuned, architecture)
    item = sequence * (1 if preference is None else 2)
    tokens = workload.tokens if workload.samples is None else float(workload.samples * item)
    if tokens is None:
        tokens = default_amount(architecture, method, notes)
    in_backward = bool(workload.optimizer_in_backward)
    if in_backward and workload.global_batch is None:
        notes.append("1 sequence per step, since an update in the backward pass accumulates none")
    batch = (
        workload.global_batch
        or int(in_backward)
        or default_batch(
            architecture,
            method,
            sequence=item,
            tokens=tokens,
            paired=preference is not None,
            notes=notes,
        )
    )
    if workload.document_length:
        notes.append("the trainer tells attention where each packed document ends")
    if preference is Preference.DPO:
        notes.append(_REFERENCE[method in ADAPTED])
    optimizer = workload.optimizer or default_optimizer(architecture, method, notes)
    cross_entropy = workload.cross_entropy
    if cross_entropy is None and method and architecture.generates:
        cross_entropy = default_loss(workload.software, tool, preference, notes)
    software = software_of(workload, architecture, recipe, tool)
    notes += _software_notes(workload, architecture, software, tool)
    adapts_experts = _adapts_experts(method, architecture, tool, notes)
    loading = resolve_loading(workload, architecture, notes)
    offer = offer_for(tool, workload, architecture, recipe)
    return TrainingRun(
        architecture=architecture,
        tokens=float(tokens) * (workload.epochs or 1.0),
        sequence_length=sequence,
        global_batch=batch,
        recipe=recipe,
        optimizer=optimizer,
        attention=workload.attention,
        software=software.name,
        method=method,
        lora_rank=tuned.lora_rank if tuned else 0,
        lora_targets=tuned.lora_targets if tuned else (),
        adapts_experts=adapts_experts,
        assumptions=tuple(notes),
        cross_entropy=cross_entropy,
        preference=preference,
        loading=loading,
        operator=workload.operator,
        offers=() if offer is None else (offer,),
        document_length=workload.document_length,
        evaluation_tokens=float(workload.evaluation_tokens or 0.0),
        switches=MemorySwitches(
            reduce_format=workload.reduce_format,
            gradient_sync=workload.gradient_sync,
            update_in_backward=in_backward,
            embedding_on_host=offer is not None
            and method in offer.embedding_on_host
            and not architecture.tied_embeddings,
        ),
    )


def offer_for(
    tool: Tool | None,
    workload: Training,
    architecture: ModelArchitecture,
    recipe: PrecisionRecipe | None = None,
) -> TrainingOffer | None:
    """Return what a tool offers for a workload, in any recipe or one; None if it does not train."""
    if tool is None:
        return None
    tuned = workload if isinstance(workload, FineTuning) else None
    method, preference = (tuned.method, tuned.preference) if tuned else (None, None)
    asked = method, preference, workload.attention, workload.optimizer
    return _offered(tool, architecture, *asked, recipe)


def _offered(
    tool: Tool,
    architecture: ModelArchitecture,
    method: FineTuningMethod | None,
    preference: Preference | None,
    attention: AttentionKernel,
    optimizer: Optimizer | None,
    recipe: PrecisionRecipe | None,
) -> TrainingOffer | None:
    return tool.trains(
        method,
        preference,
        whole=architecture.attends_to_all and attention is AttentionKernel.FLASH,
        mixture=architecture.family if architecture.num_experts > 1 else None,
        recipe=recipe,
        optimizer=optimizer,
    )


def _software_notes(
    workload: Training, architecture: ModelArchitecture, software: SoftwareStack, tool: Tool | None
) -> Iterator[str]:
    """Yield what the software is and does, as far as the workload does not state it."""
    adapting = trains_adapters(workload)
    sentence = (adapting and software.sentence_with_adapters) or software.sentence
    if tool is not None:
        yield f"{tool.named}, estimated as {sentence}"
    elif workload.software is None:
        yield sentence
    if architecture.family in software.every_expert:
        yield (
            f"{software.title} computes all {architecture.num_experts} experts of "
            f"{architecture.family} on every token"
        )
    if isinstance(workload, FineTuning) and architecture.weight_format == "fp8":
        yield "training starts from a copy in bf16 of the checkpoint, which is in fp8"


def _adapts_experts(
    method: FineTuningMethod | None,
    architecture: ModelArchitecture,
    tool: Tool | None,
    notes: list[str],
) -> bool:
    """Whether the tool puts adapters on routed experts too; noted where it does not."""
    if tool is None or architecture.num_experts == 1 or method not in ADAPTED:
        return True
    reaches = tool.adapts_experts(method, architecture.family)
    if not reaches:
        family = architecture.family
        notes.append(f"{tool.title} puts no adapters on the routed experts of {family}")
    return reaches


def trains_adapters(workload: Training) -> bool:
    """Whether the base weights are frozen and only adapters train."""
    return isinstance(workload, FineTuning) and workload.method in ADAPTED


def software_of(
    workload: Training,
    architecture: ModelArchitecture,
    recipe: PrecisionRecipe,
    tool: Tool | None = None,
) -> SoftwareStack:
    """Return the stack that estimates a run: the asked, the tool's, or the usual of the task."""
    asked = workload.software
    if asked is not None and asked in known_stacks():
        return stack_named(asked)
    if asked is not None and tool is None:
        tool = tool_named(asked)
    master = recipe.master is not None and not trains_adapters(workload)
    if tool is not None and (own := tool.stack_for(architecture.family, master=master)):
        return stack_named(own)
    if architecture.unit is not Unit.TOKEN:
        return usual_stack(Work.SAMPLES)
    tuned = isinstance(workload, FineTuning)
    return usual_stack(Work.FINE_TUNING if tuned else Work.PRETRAINING)


def takes_adapters(architecture: ModelArchitecture, targets: tuple[str, ...]) -> bool:
    """Whether a network has any of the matrices that adapters are asked for."""
    return any(op.target in targets for op in architecture.operators)


def _check_targets(workload: FineTuning, architecture: ModelArchitecture) -> None:
    """Refuse adapters if the network has none of the target matrices."""
    full = workload.method is FineTuningMethod.FULL
    if full or takes_adapters(architecture, workload.lora_targets):
        return
    known = [name for name in LORA_TARGETS if takes_adapters(architecture, (name,))]
    targets, able = ", ".join(workload.lora_targets), ", ".join(known) or "no adapters at all"
    raise refusal("no_such_targets", value=targets, allowed=able, model=architecture)


def _sequence_length(workload: Training, architecture: ModelArchitecture, notes: list[str]) -> int:
    """Tokens of a sequence; 1 if the network takes whole images or samples."""
    unit, sequence = architecture.unit, workload.sequence_length
    check_sample_fields(workload, architecture)
    if unit is not Unit.TOKEN:
        if workload.tokens is not None:
            raise refusal(
                "tokens_of_samples", value=workload.tokens, model=architecture, unit=unit.value
            )
        return 1
    longest = architecture.max_position_embeddings
    if sequence is None:
        method = workload.method if isinstance(workload, FineTuning) else None
        most = usual(architecture, method).sequence or DEFAULT_SEQUENCE_LENGTH
        sequence = min(most, longest or most)
        notes.append(f"sequences of {sequence:,} tokens (--sequence)")
        return sequence
    learned = architecture.learned_positions
    if longest is not None and sequence > (1 if learned else 8) * longest:
        times = f"the {longest:,} learned" if learned else f"8 times the {longest:,}"
        raise refusal("sequence_too_long", value=sequence, times=times, model=architecture)
    return sequence
