"""What an answer says of the serving engine: its builds, its split of layers, raised limits."""

from collections.abc import Iterator

from advisor.architecture.table.model import ModelArchitecture
from advisor.estimate.batch.forward import (
    image_kernels,
    in_measured_runs,
    inputs_per_answer,
    passes_per_answer,
)
from advisor.estimate.candidates import LayoutArrays
from advisor.estimate.hardware.card_formats import cache_format
from advisor.estimate.placement import Placement
from advisor.estimate.results import MemoryBreakdown
from advisor.estimate.serving.demand import ServedModel, ServingLoad
from advisor.estimate.serving.heads import heads_of
from advisor.estimate.serving.images import tower_bytes
from advisor.estimate.serving.memory import adapters_bytes
from advisor.estimate.serving.speculation import speculated
from advisor.estimate.serving.stored_bytes import (
    SIXTEEN_BIT_BYTES,
    mean_bytes_per_parameter,
    stores_as_published,
)
from advisor.estimate.serving.unlike import split_note
from advisor.estimate.tools.serving_formats import is_stored, loaded
from advisor.foundation.formatting import duration, memory, percent
from advisor.foundation.units import BITS_PER_BYTE, GB, GIB, MIB, TFLOP, trimmed
from advisor.nouns.hardware import Accelerator, UnlikeCards
from advisor.nouns.precision import WEIGHT_FORMATS, WeightFormat
from advisor.nouns.software.efficiency import Calibration
from advisor.nouns.software.engines import ServingFacts
from advisor.nouns.software.published_weights import listed_weights
from advisor.nouns.software.quality import quality_words
from advisor.nouns.techniques import Speculation, reserved_rank, technique_facts
from advisor.nouns.workload import Serving

PAGE_BYTES = 4096


def serving_notes(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    calibration: Calibration,
    memory: MemoryBreakdown,
) -> tuple[str, ...]:
    """Return what an estimate of serving assumes, one sentence each."""
    weight_format = WEIGHT_FORMATS[placement.precision]
    first = _text_notes if architecture.generates else _batch_notes
    return (
        *first(workload, placement, architecture, weight_format, calibration),
        *_engine_notes(placement, architecture, calibration.engine_for(weight_format)),
        *_technique_notes(workload, architecture),
        *_image_note(workload, architecture, calibration.engine_for(weight_format)),
        *_adapter_note(workload, placement, architecture, weight_format),
        *limit_notes(placement.accelerator, memory),
    )


def _text_notes(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    weight_format: WeightFormat,
    _calibration: Calibration,
) -> Iterator[str]:
    title = weight_format.title
    if stores_as_published(architecture, weight_format):
        mean = BITS_PER_BYTE * mean_bytes_per_parameter(architecture, weight_format)
        title = f"{weight_format.name} as the file stores them ({trimmed(mean, 3)} bits on average)"
    open_formats = {
        "--weights": workload.weight_format,
        "--kv-cache": workload.kv_cache_format,
    }
    flags = ", ".join(flag for flag, stated in open_formats.items() if stated is None)
    cache = cache_format(workload, placement.accelerator)
    yield f"weights in {title}, cache in {cache}{flags and f' ({flags})'}"
    yield from _source_note(placement, architecture)
    if isinstance(placement.accelerator, UnlikeCards):
        yield split_note(placement.accelerator, architecture, workload, weight_format)
    loss = quality_words(weight_format.name)
    if weight_format.name != architecture.weight_format and loss:
        paced = " at the usual speed, or the smallest usual one" if weight_format.engine else ""
        largest = f"the largest format that fits{paced}; "
        chosen = largest if workload.weight_format is None else ""
        yield f"{chosen}published loss of quality in {weight_format.name}: {loss}"
    if placement.cache and (loss := quality_words(f"kv_{placement.cache}")):
        yield (
            f"a cache of {placement.cache} (--kv-cache {placement.cache}) leaves room for larger "
            f"weights; published loss of quality: {loss}"
        )


def _source_note(placement: Placement, architecture: ModelArchitecture) -> Iterator[str]:
    """Yield where weights are from that the tool does not make of the model's own."""
    tool, name = placement.tool, placement.precision
    found = tool.support(placement.accelerator) if tool else None
    if tool is None or found is None or name == architecture.weight_format:
        return
    program = (tool, found[1])
    if listed := loaded(program, name, architecture):
        yield f"weights in {name} are published: {listed}"
    elif is_stored(program, name):
        known = f"no published {name} weights of {architecture.hub_id} are known here"
        makes = f"{tool.title} makes no {name} weights while it loads"
        makers = listed_weights().makers[name]
        yield (
            f"{known if architecture.hub_id else makes}: make them first with {makers}, and name "
            "them in export (--checkpoint)"
        )


def _batch_notes(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    weight_format: WeightFormat,
    calibration: Calibration,
) -> Iterator[str]:
    fused = image_kernels(architecture, weight_format, calibration)
    how = "compiled and fused kernels" if fused else "plain eager inference"
    yield f"weights in {weight_format.title}, {how}"
    card = placement.accelerator
    if fused and not in_measured_runs(architecture, fused, card, workload.concurrency):
        yield (
            f"fitted on convolutional networks at batch {fused.largest_batch} on "
            f"{' and '.join(fused.generations)} cards; the range is wider elsewhere"
        )
    steps = passes_per_answer(architecture, workload)
    if steps > 1:
        guided = "with" if inputs_per_answer(architecture, workload) > 1 else "without"
        yield f"{steps:,} denoising steps {guided} guidance for an image"
    if architecture.denoises:
        yield (
            "the time is that of an eager pipeline of diffusers with text encoder and decoder of "
            "latents; published pipelines on an A100 took 1.1 to 1.3 times this time in eager "
            "PyTorch, 0.6 to 0.9 times in TensorRT"
        )


def _engine_notes(
    placement: Placement, architecture: ModelArchitecture, engine: ServingFacts
) -> Iterator[str]:
    """Yield the age of the builds behind the speeds, and what the host holds."""
    layout, node, tool = placement.layout, placement.node, placement.tool
    own = tool is None or tool.engine
    if own and engine.built and (architecture.generates or engine.image_kernels):
        runs = f"published runs of builds of {engine.built}"
        if tool is None or tool.title == engine.title:
            yield f"speeds of {engine.title} rest on {runs}"
        else:
            yield f"speeds of {tool.title} are taken to be those of {engine.title}: {runs}"
    if layout.host_options:
        yield (
            f"{layout.host_options}: the host holds the rest of the "
            f"{architecture.num_hidden_layers} layers and their cache, in "
            f"{node.host_memory_bytes / GB:,.0f} GB of memory at "
            f"{trimmed(node.host_memory_bandwidth_bytes_per_s / GB, 4)} GB/s (host.memory_bytes, "
            "host.memory_bandwidth_bytes_per_s)"
        )
    if node.display_bytes and engine.backends:
        yield (
            f"{trimmed(node.display_bytes / GB, 2)} GB of each card for screen and desktop "
            "(--display-memory, host.display_bytes)"
        )


def _technique_notes(workload: Serving, architecture: ModelArchitecture) -> Iterator[str]:
    """Yield what the estimate assumes of each technique that the case states."""
    if workload.prefix_hit_share:
        yield (
            f"{percent(workload.prefix_hit_share)} of each prompt is in the prefix cache (stated); "
            "the memory counts every request in full, but for a stated --shared-prefix"
        )
    if workload.input_tokens_p95 and workload.requests_per_s is None:
        alike = workload.input_tokens_p95 == workload.input_tokens
        yield (
            "all prompts are alike (stated): each waits for the others as in the benchmarks of the "
            "engine"
            if alike
            else f"95 % of the prompts have under {workload.input_tokens_p95:,} tokens (stated); "
            "the wait for other prompts grows with their variation"
        )
    if workload.shared_prefix_tokens:
        yield (
            f"all prompts begin with the same {workload.shared_prefix_tokens:,} tokens (stated), "
            "which an engine with a prefix cache reads and keeps once"
        )
    if workload.speculation is not None:
        facts, drafts = technique_facts().speculation[workload.speculation], speculated(workload)
        yield (
            f"{facts.title}: a step checks {drafts.verified:.0f} tokens of each sequence and "
            f"yields {drafts.accepted:.1f}; published gain of one stream {facts.gain.low:g} to "
            f"{facts.gain.high:g} times ({facts.source})"
        )
        if workload.speculation is Speculation.EAGLE3:
            published = " or ".join(heads_of(architecture).values())
            yield (
                f"published EAGLE-3 heads: {published}; the memory leaves them out"
                if published
                else "no published EAGLE-3 heads of this model are known here: train them first"
            )
        if workload.speculation is Speculation.MTP and not architecture.prediction_layers:
            yield (
                "the model's configuration names no layers for multi-token prediction: check that "
                "the checkpoint has them"
            )


def _image_note(
    workload: Serving, architecture: ModelArchitecture, engine: ServingFacts
) -> Iterator[str]:
    work, count = workload.image_work, workload.images_per_request
    if work is None or count is None:
        held = tower_bytes(architecture) if engine.loads_tower else 0.0
        if held and work is None:
            yield f"{engine.title} loads the vision tower too: {memory(held)} in 16 bits"
        return
    yield (
        f"with images: {count:,} of {work.side:,} x {work.side:,} pixels in a prompt are "
        f"{work.tokens:,} of its {workload.input_tokens:,} tokens and "
        f"{trimmed(work.flops / TFLOP, 2)} TFLOPs of the vision tower, whose weights take "
        f"{memory(work.tower_bytes)} in 16 bits; the host prepares them in "
        f"{duration(work.host_s)}; the tower's activations and images that the engine has cached "
        "are left out"
    )


def _adapter_note(
    workload: Serving,
    placement: Placement,
    architecture: ModelArchitecture,
    weight_format: WeightFormat,
) -> Iterator[str]:
    if not workload.adapters:
        return
    facts, rank = technique_facts().adapters, reserved_rank(workload)
    held = adapters_bytes(
        ServedModel.of(architecture, weight_format=weight_format, cache_bytes=SIXTEEN_BIT_BYTES),
        ServingLoad.of(workload),
        LayoutArrays.of(placement.layout),
    )
    yield (
        f"LoRA adapters: {memory(float(held[0]))} of each card for {workload.adapters:,} of rank "
        f"{rank} on every matrix of the blocks, in 16 bits; published servers take "
        f"{facts.slowdown.low:g} to {facts.slowdown.high:g} times the time, "
        f"{facts.slowdown.expected:g} expected ({facts.runs}); one adapter alone, merged into the "
        "weights, takes none"
    )


def limit_notes(accelerator: Accelerator, memory: MemoryBreakdown) -> tuple[str, ...]:
    """Say how to raise the limit of unified memory, where a served model needs more."""
    needed = memory.needed_bytes
    if accelerator.memory_reported_bytes < needed <= memory.usable_bytes:
        return (raising(accelerator),)
    return ()


def raising(accelerator: Accelerator) -> str:
    """Return how an owner raises the limit of unified memory."""
    raised = accelerator.memory_raised_bytes
    given = f"by default, the GPU gets {accelerator.memory_reported_bytes / GIB:,.0f} GiB"
    how = f"sudo sysctl iogpu.wired_limit_mb={raised / MIB:.0f}"
    if accelerator.vendor != "Apple":
        how = f"kernel option ttm.pages_limit={raised / PAGE_BYTES:.0f}"
    return f"{given} of the shared memory; for more: {how}"
