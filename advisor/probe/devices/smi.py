"""Reads cards from the output of ``nvidia-smi``, for machines where the probe cannot run."""

from __future__ import annotations

import re
from typing import Final

from advisor.errors import InputError
from advisor.foundation.units import MIB
from advisor.probe.report import Condition, Device, DeviceKind

MAX_CHARACTERS: Final = 100_000
NAMED: Final = re.compile(
    r"^\|\s+(?P<index>\d{1,2})\s+(?P<name>\S.{0,60}?)\s+(?:On|Off|N/A)\s*\|", re.MULTILINE
)
STATED: Final = re.compile(
    r"^\|.{0,12}?(?P<celsius>\d{1,3})C.{0,30}?/\s*(?P<watts>\d{1,4}|N/A)W?\s*\|"
    r"\s*(?P<used>\d{1,7})MiB\s*/\s*(?P<total>\d{1,7})MiB\s*\|\s*(?P<load>\d{1,3}|N/A)",
    re.MULTILINE,
)
DRIVER: Final = re.compile(r"Driver Version:\s*([\d.]{1,20})")


def read_smi(text: str) -> tuple[Device, ...]:
    """Read the cards from the table of ``nvidia-smi``.

    Parameters
    ----------
    text : str
        The output of the command without options.

    Returns
    -------
    tuple of Device
        Fields that the table does not show stay unknown.

    Raises
    ------
    InputError
        If the text contains no card.
    """
    text = text[:MAX_CHARACTERS]
    names, states = list(NAMED.finditer(text)), list(STATED.finditer(text))
    if not names or len(names) != len(states):
        raise InputError(
            "the text contains no card",
            value=text[:60],
            allowed="the table that 'nvidia-smi' prints without options",
            remedy="Paste it whole, from the first line to the last.",
            field="nvidia_smi",
        )
    driver = DRIVER.search(text)
    return tuple(
        Device(
            kind=DeviceKind.CUDA,
            index=int(name["index"]),
            name=name["name"].removesuffix("..."),
            driver=driver[1] if driver else "",
            memory_bytes=max(1.0, float(state["total"])) * MIB,
            free_bytes=max(0.0, float(state["total"]) - float(state["used"])) * MIB,
            power_limit_w=float(state["watts"]) if state["watts"].isdigit() else None,
            condition=Condition(
                temperature_c=min(200.0, float(state["celsius"])),
                busy_fraction=min(1.0, float(state["load"]) / 100)
                if state["load"].isdigit()
                else None,
            ),
        )
        for name, state in zip(names, states, strict=True)
    )
