"""What published sources say of kernels that no table measures."""

from advisor.foundation.noun import Noun, shipped


class KernelFacts(Noun):
    """Contents of the file, which says what each entry is."""

    driver_s: float
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
    math_score_passes: float
    aligned_bytes: int
    cast_bytes: float
    slice_passes: float
    native_batch_norm: float
    single_accesses: float
    usual_lanes: int
    fewer_lanes: dict[str, int]
    wide_area: int
    norm_vector_flops: float
    boxes_s: float


kernel_facts = shipped("kernel_facts.yaml", KernelFacts)
"""Returns what published sources say of kernels that no table measures."""
