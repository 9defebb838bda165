"""Switches of the training software that change memory."""

from advisor.foundation.record import record
from advisor.nouns.training_choices import GradientSync


@record
class MemorySwitches:
    """Switches of the training software that change its memory; the defaults are PyTorch's."""

    foreach_optimizer: bool = False
    """The update holds one temporary copy of the parameters (PyTorch's ``foreach``)."""
    gradient_bucket_view: bool = False
    """Gradients live inside the buckets of DDP (``gradient_as_bucket_view``)."""
    kept_gradients: bool = False
    """Gradients are set to zero after a step instead of being freed."""
    shifted_logits: bool = False
    """The loss copies fp32 logits without the last position (transformers before 4.49)."""
    gathered_logits: bool = False
    """Tensor parallelism gathers the logits before the loss."""
    ends_apart: bool | None = None
    """Embedding and head are sharded separately; None takes the stack's default."""
    base_inputs_kept: bool = False
    """A 4-bit base keeps the unused input of each product (bitsandbytes before 0.44, pull 1270)."""
    unpacked_base: bool = False
    """A 4-bit base is unpacked by single operations (GPTQ in PyTorch), not by one kernel."""
    flat_units: bool = False
    """Frozen weights are sharded in one flat unit with adapters (PyTorch's first FSDP), which
    allocates gradients for them too, whole until the last micro-batch (``no_sync``)."""
    reduce_format: str | None = None
    """Format in which sharded gradients are reduced; None takes the format of the gradients."""
    gradient_sync: GradientSync = GradientSync.EACH
    """When ranks sum sharded gradients; waiting gradients are in the reduced format."""
    update_in_backward: bool = False
    """The optimizer updates each weight in the backward pass and frees its gradient."""
    fused_softmax: bool = False
    """Unfused attention scales, masks and normalises in one kernel, whatever the stack."""
    widened_norms: bool = False
    """Layer norms cast a 16-bit input to fp32 and their output back, one by one (openai/CLIP,
    clip/model.py, LayerNorm; mlfoundations/open_clip, LayerNormFp32)."""
    portable_attention: bool = False
    """FlashAttention-2 computes attention, whatever kernel the stack has for the card."""
    channels_last: bool | None = None
    """Convolutions read channels last. None: yes, except in detectors and
    diffusion models, whose code does not ask."""
    answered_share: float = 1.0
    """Share of the positions that pass the head and its loss, as masked words alone may."""
    layers_in_16_bits: int = 0
    """How many layers keep products in 16 bits where the others multiply in fewer."""
    expert_capacity: float = 1.0
    """Tokens that each routed expert computes, padding included, over its even share."""
    trained_ends: bool = False
    """Besides adapters, full copies of embedding and head train (``modules_to_save``)."""
    embedding_on_host: bool = False
    """A frozen input table stays in the host's memory."""
    adapter_format: str = "fp32"
    adapter_autocast: bool = True
    """Adapters compute under autocast; otherwise their input is cast to their format."""
    adapter_dropout: bool = False
    base_raised: bool = False
    """A 4-bit base has ends and norms in fp32 (``prepare_model_for_kbit_training``)."""
