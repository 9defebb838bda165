"""Which files hold doctests: those with an example. To look for one imports and walks a module."""

from collections.abc import Generator
from pathlib import Path

import pytest

Found = list[pytest.Collector]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Found, Found]:
    """Leave out what looks for doctests in a file without one."""
    found = yield
    if b">>>" in file_path.read_bytes():
        return found
    return [one for one in found if type(one) is pytest.Module]
