"""GPU advisor: which accelerators, how many, arranged how, for how long, at what cost.

>>> import advisor
>>> catalog = advisor.load_catalog()
>>> case = advisor.load_case(
...     {
...         "model": {"preset": "llama-3.1-8b"},
...         "workload": {"kind": "fine_tuning", "method": "lora", "tokens": 50e6},
...         "limits": {"deadline_hours": 24},
...     }
... )
>>> advisor.recommend(case).plans[0].rank
1
"""

from __future__ import annotations

import sys
from types import ModuleType

__version__ = "0.1.0"

TYPE_CHECKING = False  # the module of its name takes as long to import as all of this
if TYPE_CHECKING:
    from typing import Any

    from advisor.api import compare as compare
    from advisor.api import estimate as estimate
    from advisor.api import export as export
    from advisor.api import fits as fits
    from advisor.api import load_case as load_case
    from advisor.api import load_catalog as load_catalog
    from advisor.api import load_portfolio as load_portfolio
    from advisor.api import own as own
    from advisor.api import plan_fleet as plan_fleet
    from advisor.api import recommend as recommend
    from advisor.api import resolve_model as resolve_model
    from advisor.api import scaling as scaling
    from advisor.api import turning as turning
    from advisor.api import validate as validate
    from advisor.api import what_if as what_if
    from advisor.calibration.scoring.report import ValidationReport as ValidationReport
    from advisor.errors import AdvisorError as AdvisorError
    from advisor.errors import CatalogError as CatalogError
    from advisor.errors import InputError as InputError
    from advisor.estimate.results import Estimate as Estimate
    from advisor.foundation.quantities import Range as Range
    from advisor.nouns.case import Case as Case
    from advisor.nouns.layout import ParallelLayout as ParallelLayout
    from advisor.nouns.limits import Constraints as Constraints
    from advisor.owning.results import Ownership as Ownership
    from advisor.planning.fits.results import Fits as Fits
    from advisor.planning.results import Recommendation as Recommendation
    from advisor.probe.learned_constants import owned_from_report as owned_from_report
    from advisor.probe.measuring.run import probe as probe
    from advisor.probe.report import ProbeReport as ProbeReport
    from advisor.sweeps.sweep import sweep as sweep


def _homes() -> dict[str, str]:
    from advisor.foundation.imports import later

    return later(__file__)


_HOMES = _homes()

__all__ = [  # noqa: PLE0604
    "__version__",
    *sorted(_HOMES),
]


def _function(name: str) -> property:
    """Return a property that keeps a name a function when the sub-package is imported."""
    # The import system finds the module by its full name.
    return property(lambda _: __getattr__(name), lambda _, module: None)


class _Package(ModuleType):
    """The package: ``advisor.estimate`` is the function, not the sub-package of that name.

    Importing the sub-package would otherwise replace the function by the module.
    """

    estimate = _function("estimate")
    export = _function("export")
    probe = _function("probe")


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import advisor`` stays instant."""
    if name not in _HOMES:
        raise AttributeError(f"module 'advisor' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
