"""From whatever the user gave to the architecture: preset, configuration, hub id or count."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from advisor.architecture.config_fields import MAX_CONFIG_BYTES, load_config_text
from advisor.architecture.huggingface import architecture_from_config
from advisor.architecture.model import ModelArchitecture
from advisor.architecture.parameter_count import architecture_from_parameters
from advisor.architecture.presets import find_preset, load_preset
from advisor.case import ModelSource
from advisor.errors import InputError

PASTE: Final = "Paste the model's config.json, or give its parameter count."
HUB_TIMEOUT_S: Final = 10


def resolve_model(source: ModelSource) -> ModelArchitecture:
    """Architecture that a case names.

    Parameters
    ----------
    source : ModelSource

    Returns
    -------
    ModelArchitecture

    Raises
    ------
    InputError
        If the preset is unknown, the configuration unusable, the hub out of reach or the
        family unsupported.
    """
    if source.preset is not None:
        return load_preset(source.preset)
    if source.config is not None:
        return architecture_from_config(read_config(source.config))
    if source.hub is not None:
        return _from_hub(source.hub)
    if source.parameters is not None:
        return architecture_from_parameters(source.parameters)
    raise InputError(
        "model is empty",
        value=None,
        allowed="preset, config, hub or parameters",
        remedy="Add e.g. model: {preset: llama-3.1-8b}.",
        field="model",
    )


def read_config(config: str | Mapping[str, object]) -> Mapping[str, object]:
    """Parsed configuration from a path, a JSON text or a mapping.

    Parameters
    ----------
    config : str or mapping
        Text that starts with ``{`` is JSON; other text is the path of a file.

    Returns
    -------
    mapping

    Raises
    ------
    InputError
        If the file cannot be read, or the text is not a usable JSON object.
    """
    if isinstance(config, Mapping):
        return config
    if config.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return load_config_text(config.lstrip("\ufeff"))
    return load_config_text(_read(config))


def _read(name: str) -> bytes:
    remedy = "Give the path of a config.json, or paste its text, which starts with '{'."
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            path = path / "config.json"
        with path.open("rb") as stream:
            # One byte more than allowed tells a large file without reading all of it.
            return stream.read(MAX_CONFIG_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"the config file cannot be read ({error.__class__.__name__})",
            value=name,
            allowed="a readable JSON file",
            remedy=remedy,
            field="model.config",
        ) from None


def _from_hub(hub_id: str) -> ModelArchitecture:
    if find_preset(hub_id) is not None:
        return load_preset(hub_id)
    if find_spec("huggingface_hub") is None:
        raise InputError(
            "this hub id is not among the presets, and huggingface_hub is not installed",
            value=hub_id,
            allowed="a preset's hub id",
            remedy="Install gpu-advisor[hub] to fetch it. " + PASTE,
            field="model.hub",
        )
    return architecture_from_config(
        load_config_text(_download(hub_id)), name=hub_id.rpartition("/")[2], hub_id=hub_id
    )


def _download(hub_id: str) -> bytes:
    """Return the config.json of a hub repository."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        path = hf_hub_download(hub_id, "config.json", etag_timeout=HUB_TIMEOUT_S)
        return Path(path).read_bytes()
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise InputError(
            f"config.json could not be fetched from the hub ({error.__class__.__name__})",
            value=hub_id,
            allowed="a public repository, online",
            remedy=PASTE,
            field="model.hub",
        ) from None
