"""Reads a Hugging Face ``config.json``. Every value has bounds, and errors name the field."""

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from advisor.errors import InputError
from advisor.foundation.names import printable
from advisor.foundation.structured import MAX_VALUES, NotPlainError, read_json

MAX_CONFIG_BYTES: Final = 2_500_000
MAX_DEPTH: Final = 40
BYTES_PER_VALUE: Final = 10
"""Fewest bytes of text per value, on average over a file. It bounds the memory of the values."""

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "hidden_size": ("n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "num_attention_groups"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "max_target_positions"),
    "vocab_size": ("padded_vocab_size",),
    "hidden_act": ("hidden_activation", "activation_function", "activation"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "experts_per_token",
        "num_experts_per_token",
        "moe_topk",
        "moe_top_k",
        "moe_k",
        "top_k_experts",
    ),
    "n_shared_experts": ("num_shared_experts",),
}
"""Other spellings of fields in older configurations."""

LIMITS: Final[dict[str, int]] = {
    "hidden_size": 1_000_000,
    "num_hidden_layers": 10_000,
    "vocab_size": 100_000_000,
    "vocab_size_per_layer_input": 100_000_000,
    "max_position_embeddings": 10_000_000_000,
    **dict.fromkeys(
        ("num_decoder_layers", "inner_group_num", "transformer_layers_per_block"), 10_000
    ),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 10_000),
    **dict.fromkeys(
        (
            *("num_attention_heads", "num_key_value_heads", "attention_heads", "num_heads"),
            *("encoder_attention_heads", "decoder_attention_heads", "attention_head_dim"),
            *("num_sliding_attention_heads", "swa_num_attention_heads"),
            *("linear_num_heads", "linear_num_key_heads", "linear_num_value_heads"),
            *("mamba_n_heads", "mamba_n_groups", "mamba_num_heads", "n_groups"),
            *("head_dim", "v_head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "kv_channels"),
            *("swa_head_dim", "swa_v_head_dim", "global_head_dim", "mamba_head_dim", "d_kv"),
            *("linear_head_dim", "linear_key_head_dim", "linear_value_head_dim"),
            *("index_head_dim", "index_n_heads", "index_kpool", "num_mel_bins"),
            *("num_experts", "num_experts_per_tok", "zero_expert_num"),
            *("state_size", "ssm_state_size", "mamba_d_state", "chunk_size", "mamba_chunk_size"),
            *("conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim", "short_conv_kernel_size"),
            *("conv_L_cache", "block_size", "image_size", "embed_dim", "local_attention"),
            *("text_length", "transformer_layers_per_block"),
        ),
        65_536,
    ),
    **dict.fromkeys(("num_channels", "out_channels", "bifpn_width"), 4096),
    **dict.fromkeys(("expand", "mamba_expand", "hc_mult", "altup_num_inputs"), 64),
    **dict.fromkeys(("layers_per_block", "bifpn_layers", "head_layers", "conv_kernel_size"), 64),
}
DEFAULT_LIMIT: Final = 100_000_000
"""Largest accepted value of a field without an entry in ``LIMITS``."""

SIZES: Final = frozenset(
    {
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"),
        *("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size"),
        *("num_experts", "num_experts_per_tok", "kv_lora_rank"),
        *("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"),
        *("index_head_dim", "index_n_heads", "index_topk"),
    }
)
"""Fields where a null leaves the model's size open. A null elsewhere means the class's default."""

REMEDY: Final = "Correct the field, or give the model's parameter count instead."


class ConfigFields:
    """A configuration, with readers that check each field's type and range.

    Parameters
    ----------
    config : mapping
        Parsed ``config.json``.
    defaults : mapping
        Values of absent fields. A null in the file stays a null.
    """

    def __init__(
        self, config: Mapping[str, object], defaults: Mapping[str, object] | None = None
    ) -> None:
        self._config = config
        self._defaults = defaults or {}

    def _find(self, name: str) -> tuple[str, object]:
        """Return the spelling in the file and its value, or the name itself and None."""
        spellings = (name, *ALIASES.get(name, ()))
        for spelling in spellings:
            if self._config.get(spelling) is not None:
                return spelling, self._config[spelling]
        if any(spelling in self._config for spelling in spellings):
            return name, None
        return name, self._class_default(name)

    def _class_default(self, name: str) -> object:
        """Return the class's default for a field that is null but must not be."""
        spellings = (name, *ALIASES.get(name, ()))
        return next((self._defaults[item] for item in spellings if item in self._defaults), None)

    def has(self, name: str) -> bool:
        """Return whether a field is present and not null."""
        return self._find(name)[1] is not None

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the ``names`` whose field is absent or null."""
        return tuple(name for name in names if not self.has(name))

    def count(
        self, name: str, default: int | None = None, *, minimum: int = 1, maximum: int | None = None
    ) -> int:
        """Return a whole number within its bounds.

        Raises InputError if the field is absent without a default, has another type or is out of
        bounds.
        """
        spelling, value = self._find(name)
        if value is None and default is None and name not in SIZES:
            value = self._class_default(name)
        limit = maximum if maximum is not None else LIMITS.get(name, DEFAULT_LIMIT)
        allowed = f"a whole number from {minimum:,} to {limit:,}"
        if value is None:
            if default is None:
                self.refuse(name, "is missing", None, allowed)
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(spelling, "is not a whole number", value, allowed)
        if not minimum <= value <= limit:
            self.refuse(spelling, "is out of bounds", value, allowed)
        return value

    def optional_count(self, name: str) -> int | None:
        """Return a whole number of at least one, or None if the field is absent or null."""
        return self.count(name) if self.has(name) else None

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean, or ``default`` if neither the file nor its class has one.

        Raises InputError if the value is neither true nor false.
        """
        spelling, value = self._find(name)
        if value is None and (value := self._class_default(name)) is None:
            return default
        if not isinstance(value, bool):
            self.refuse(spelling, "is not a boolean", value, "true or false")
        return value

    def number(
        self, name: str, default: float | None = None, *, minimum: float, maximum: float
    ) -> float:
        """Return a number within its bounds.

        Raises InputError if the value has another type or is out of bounds.
        """
        spelling, value = self._find(name)
        allowed = f"{minimum:g} to {maximum:g}"
        if value is None:
            value = self._class_default(name) if default is None else default
        if value is None:
            self.refuse(name, "is missing", None, allowed)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not minimum <= value <= maximum
        ):
            self.refuse(spelling, "is not usable", value, allowed)
        return float(value)

    def share(self, name: str, default: float | None = None) -> float:
        """Return a number from 0 to 1, as :meth:`number`."""
        return self.number(name, default, minimum=0, maximum=1)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string, or ``default`` if neither the file nor its class has one.

        Raises InputError if the value has another type or is not printable.
        """
        spelling, value = self._find(name)
        if value is None:
            value = self._class_default(name) or default
        if value is None:
            self.refuse(name, "is missing", None, "a string")
        if not isinstance(value, str):
            self.refuse(spelling, "is not text", value, "a string")
        return printable(value, field=f"config field {spelling}")

    def texts(self, name: str, *, length: int, allowed: Iterable[str]) -> tuple[str, ...] | None:
        """Return a list of ``length`` known strings, or None if the field is absent."""
        spelling, value = self._find(name)
        if value is None:
            return None
        known = tuple(allowed)
        wanted = f"a list of {length} values out of {', '.join(known)}"
        if not isinstance(value, list) or len(value) != length:
            self.refuse(spelling, "does not match the layers", value, wanted)
        if any(item not in known for item in value if isinstance(item, str)) or not all(
            isinstance(item, str) for item in value
        ):
            self.refuse(spelling, "has an unknown value", value, wanted)
        return tuple(value)

    def counts(self, name: str, *, maximum: int) -> tuple[int, ...]:
        """Return a list of whole numbers from 0 to ``maximum``; empty if there is none."""
        spelling, value = self._find(name)
        if value is None and (value := self._class_default(name)) is None:
            return ()
        wanted = f"a list of whole numbers from 0 to {maximum:,}"
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= maximum
            for item in value
        ):
            self.refuse(spelling, "is not usable", value, wanted)
        return tuple(value)

    def names(self, name: str) -> tuple[str, ...]:
        """Return the strings of a list and of lists in it; empty if absent or not a list."""
        value = self._find(name)[1]
        if not isinstance(value, list):
            return ()
        items = (item if isinstance(item, list) else [item] for item in value)
        return tuple(text for item in items for text in item if isinstance(text, str))

    def length(self, name: str) -> int | None:
        """Return the length of a list, or None if the field is absent or not a list."""
        value = self._find(name)[1]
        return len(value) if isinstance(value, list) else None

    def is_text(self, name: str) -> bool:
        """Return whether a field is a string."""
        return isinstance(self._find(name)[1], str)

    def mapping(self, name: str) -> Mapping[str, object] | None:
        """Return a nested object, or None if the field is absent."""
        value = self._config.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(name, "is not an object", value, "an object")
        return value

    def must_divide(self, name: str, value: int, whole: int, of: str = "the heads") -> None:
        """Refuse a field whose value does not divide ``whole``, which messages call ``of``.

        Raises InputError if the division leaves a remainder.
        """
        if whole % value:
            self.refuse(name, f"does not divide {of}", value, f"a divisor of {whole:,}")

    def must_match(self, name: str, found: int, layers: int) -> None:
        """Refuse a list whose length differs from the number of layers.

        Raises InputError if the lengths differ.
        """
        if found != layers:
            wanted = f"a list of {layers} values"
            self.refuse(name, "does not match the layers", f"{found} values", wanted)

    def refuse(self, name: str, what: str, value: object, allowed: str) -> NoReturn:
        """Refuse the configuration because of the field ``name``: ``config field NAME WHAT``."""
        self.fail(f"config field {name} {what}", name, value, allowed)

    def fail(self, what: str, field: str, value: object, allowed: str) -> NoReturn:
        """Refuse the configuration because of one field."""
        raise InputError(
            what, value=value, allowed=allowed, remedy=REMEDY, field=f"model.config.{field}"
        )


def load_config_text(text: str | bytes, *, most: int = MAX_CONFIG_BYTES) -> dict[str, object]:
    """Parse the text of a ``config.json``.

    The parsed object; its values are not validated yet.

    Parameters
    ----------
    text : str or bytes
        JSON; bytes are read as UTF-8.
    most : int
        Largest accepted size. [bytes]

    Raises
    ------
    InputError
        If the text is larger than 2.5 MB, not UTF-8, not JSON, not an object, or nested deeper
        than 40 levels, or holds ``NaN``, a key twice or a number of more than 30 digits.
        Infinities are accepted: published files have them in fields that no size depends on.
    """
    raw = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
    if len(raw) > most:
        _refuse("the config is too large", f"{len(raw):,} bytes", f"{most:,} bytes")
    try:
        parsed = read_json(
            raw.decode("utf-8"), deepest=MAX_DEPTH, most=min(MAX_VALUES, most // BYTES_PER_VALUE)
        )
    except UnicodeDecodeError:
        _refuse("the config is not UTF-8 text", _size(raw), "UTF-8 JSON")
    except NotPlainError as error:
        raise error.as_input_error(
            "the config",
            form="JSON",
            value=_size(raw),
            allowed="JSON of ordinary depth and size",
            field="model.config",
        ) from None
    if not isinstance(parsed, dict):
        _refuse("the config is not a JSON object", _size(raw), "an object like {...}")
    return parsed


def _size(raw: bytes) -> str:
    # Show only the size: the text may come from a file that must not be revealed.
    return f"{len(raw):,} bytes"


def _refuse(what: str, value: object, allowed: str) -> NoReturn:
    raise InputError(
        what,
        value=value,
        allowed=allowed,
        remedy="Paste the whole config.json of the model's page.",
        field="model.config",
    )
