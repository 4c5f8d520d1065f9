"""Without a browser these tests fail, and say what to install; none is left out unseen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.processes.chromium import executable


def test_a_missing_browser_is_a_failure_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    driver: Any = SimpleNamespace(chromium=SimpleNamespace(executable_path="/nowhere/chrome"))
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"):
        executable(driver)


def test_playwrights_own_browser_is_used_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    driver: Any = SimpleNamespace(chromium=SimpleNamespace(executable_path="/bin/true"))
    assert executable(driver) == "/bin/true"
