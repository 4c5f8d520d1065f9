"""What a failed test with an engine shows besides its assertion."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.engines.machine import UNITS, Machine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report: Any = yield
    machine = getattr(item, "funcargs", {}).get("machine")
    if report.failed and isinstance(machine, Machine):
        report.sections += [(f"journal of {unit}", machine.journal(unit)) for unit in UNITS]
    return report
