"""A case with what every estimate of it needs, so that rooms pass one value instead of three."""

from dataclasses import replace
from typing import Self

from advisor.architecture.table.model import ModelArchitecture
from advisor.foundation.record import record
from advisor.nouns.case import Case
from advisor.nouns.software.efficiency import Calibration


@record
class ResolvedCase:
    """A case, the rows of its model, and the constants that apply to it."""

    case: Case
    architecture: ModelArchitecture
    calibration: Calibration

    def of(self, case: Case) -> Self:
        """Return the same model and constants for another case."""
        return replace(self, case=case)

    def cached_in(self, cache: str | None) -> Self:
        """Return it with this format of the key-value cache, if a plan chose one."""
        if cache is None:
            return self
        workload = self.case.workload.changed(kv_cache_format=cache)
        return self.of(self.case.changed(workload=workload))
