"""What published sources say of kernels that no table measures."""

from advisor.foundation.noun import Noun, shipped
from advisor.nouns.training_choices import CrossEntropy


class KernelFacts(Noun):
    """Contents of the file, which says what each entry is."""

    driver_s: float
    usual_launch_s: float
    adapter_launches: float
    copy_s: float
    step_copies: float
    adapter_cover: float
    answer_copies: float
    expanded_bytes: float
    unpacked_bytes: float
    scan_keys: float
    scan_backward: float
    dualpipe_grouped: float
    first_flash: float
    softmax_elements: float
    usual_head: float
    short_keys: float
    math_score_passes: float
    aligned_bytes: int
    cast_bytes: float
    slice_passes: float
    slice_kernels: int
    native_batch_norm: float
    widened_norm: float
    widened_backward: float
    winograd_saving: float
    cache_speed: float
    single_accesses: float
    usual_lanes: int
    fewer_lanes: dict[str, int]
    wide_area: int
    norm_vector_flops: float
    boxes_s: float
    denoising_steps: int
    loss_bytes: dict[CrossEntropy, float]
    autocast_loss_bytes: float
    narrow_loss_bytes: float
    sharded_loss_bytes: float


kernel_facts = shipped("kernel_facts.yaml", KernelFacts)
"""Returns what published sources say of kernels that no table measures."""
