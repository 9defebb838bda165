"""Checks of a configuration; each refusal states the allowed values and a remedy."""

from advisor.architecture.pairs import writes_apart
from advisor.architecture.table.model import ModelArchitecture, Unit
from advisor.errors import refusal
from advisor.estimate.hardware.card_formats import serves_in, stored_format
from advisor.estimate.sample import check_sample_fields
from advisor.estimate.training.run import TrainingRun
from advisor.nouns.hardware import Accelerator
from advisor.nouns.layout import ParallelLayout, Recompute
from advisor.nouns.precision import RECIPES, PrecisionRecipe, WeightFormat
from advisor.nouns.workload import Serving, Training


def check_count(layout: ParallelLayout, count: int) -> None:
    """Refuse a layout that does not use exactly ``count`` accelerators."""
    if layout.accelerators == count:
        return
    remedy = f"Choose tensor, pipeline and context so that their product divides {count}."
    model_parallel = layout.accelerators // layout.data
    if count % model_parallel == 0:
        remedy = f"Set data to {count // model_parallel} or change the count."
    raise refusal("count_of_layout", remedy=remedy, layout=layout, count=count)


def check_trains(accelerator: Accelerator, workload: Training, recipe: PrecisionRecipe) -> None:
    """Refuse training on an accelerator without training software or without this precision."""
    if accelerator.inference_only:
        raise refusal("serves_only", value=workload.kind, card=accelerator)
    if recipe.compute in accelerator.peak_flops_per_s:
        return
    able = [item.name for item in RECIPES.values() if item.compute in accelerator.peak_flops_per_s]
    allowed = ", ".join(able) or "none of the recipes"
    raise refusal(
        "no_rate_for_recipe", value=recipe.name, allowed=allowed, card=accelerator, recipe=recipe
    )


def check_serves(accelerator: Accelerator, weight_format: WeightFormat) -> None:
    """Refuse weights in a format in which the accelerator does not compute."""
    if serves_in(accelerator, weight_format.name):
        return
    name = weight_format.name
    allowed = stored_format(accelerator, name)
    raise refusal("no_rate_for_weights", value=name, allowed=allowed, card=accelerator, name=name)


def check_layout(layout: ParallelLayout, architecture: ModelArchitecture) -> None:
    """Refuse degrees that do not divide the model's shape, and fields that contradict others."""
    stages = layout.pipeline * layout.virtual_stages
    heads, experts = architecture.num_attention_heads, architecture.num_experts
    problems: tuple[tuple[bool, str, str], ...] = (
        (
            stages > architecture.pipeline_parts,
            "pipeline",
            f"at most {architecture.pipeline_parts} stages, one for each layer, embedding and head",
        ),
        (
            heads % layout.tensor != 0,
            "tensor",
            f"a divisor of the {heads} attention heads"
            if heads > 1
            else "1: it has no attention heads to divide",
        ),
        (
            experts % layout.expert != 0,
            "expert",
            f"a divisor of the {experts} experts" if experts > 1 else "1: no routed experts",
        ),
    )
    if architecture.unit is not Unit.TOKEN:
        takes = f"1: only data parallelism divides the {architecture.unit.value}s of "
        takes += architecture.name
        divided = ("tensor", "pipeline", "context")
        problems += tuple((getattr(layout, name) > 1, name, takes) for name in divided)
        blocks = any(op.segment for op in architecture.operators)
        problems += (
            (
                layout.recompute is Recompute.SELECTIVE
                or (layout.recompute is Recompute.FULL and not blocks),
                "recompute",
                "none or full: a block is recomputed as a whole"
                if blocks
                else "none: it has no residual blocks to recompute",
            ),
        )
    for wrong, name, allowed in problems:
        if wrong:
            value = stages if name == "pipeline" else getattr(layout, name)
            raise refusal(
                "layout_of_other_model", value=value, allowed=allowed, name=name, model=architecture
            )
    for (name, *_), message in layout.contradictions():
        why, remedy = message.split("; ")
        told = f"{remedy[:1].upper()}{remedy[1:]}."
        value = getattr(layout, name)
        raise refusal("layout_contradicts", value=value, remedy=told, name=name, why=why)


def check_context(workload: Serving, architecture: ModelArchitecture) -> None:
    """Refuse requests longer than the model's context."""
    check_sample_fields(workload, architecture)
    longest = architecture.max_position_embeddings
    if architecture.unit is not Unit.TOKEN or longest is None:
        return
    what, length, exceed = "input_tokens", workload.input_tokens, "exceeds"
    if writes_apart(architecture):
        what, length = "output_tokens", workload.output_tokens
    elif architecture.generates:
        what, exceed = "input_tokens + output_tokens", "exceed"
        length += workload.output_tokens
    if length > longest:
        raise refusal(
            "context_exceeded",
            value=length,
            field=f"workload.{what.split()[0]}",
            length=f"{what} {exceed}",
            model=architecture,
        )


def check_batch(layout: ParallelLayout, run: TrainingRun) -> None:
    """Refuse more data-parallel sequences than the batch has."""
    taken = layout.data * layout.micro_batch
    if taken > run.global_batch:
        raise refusal("batch_exceeded", value=taken, run=run)
