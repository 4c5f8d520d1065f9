"""docs/extending.md: the feature that it builds works as it stands there; and what a feature that raises costs."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.answering.hooks import background, chat_commands, counters
from dispatcher.health import doctor
from dispatcher.queue.tasks import TaskQueue
from shared.hooks import Hooks, failures, hook
from tests.support.day.queues import play
from tests.support.world import REPOSITORY, World

#: What the suite of a feature needs of a checkout.
NEEDED = ("conftest.py", "dispatcher", "nightly", "pyproject.toml", "scripts", "shared", "tests")
PAGE = REPOSITORY / "docs" / "extending.md"


def test_the_page_on_features_builds_one(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for place, but in ((".", "dispatcher"), ("dispatcher", "features"), ("dispatcher/features", "")):
        (copy / place).mkdir()
        for path in (REPOSITORY / place).iterdir():
            if path.name not in (but, "__pycache__") and (place != "." or path.name in NEEDED):
                (copy / place / path.name).symlink_to(path)
    for name, code in re.findall(r"^```python (\S+)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        path = copy / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(code)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "dispatcher/features/weather"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]


class Broken:
    @hook
    def chat_commands(self) -> None:
        raise ValueError("broken")

    @hook
    def counters(self) -> None:
        raise ValueError("broken")


class Sound:
    @hook
    def counters(self) -> list[str]:
        return ["counted"]


def test_a_feature_that_raises_fails_open_or_closed_as_the_hook_says(light: World) -> None:
    hooks = Hooks([("broken", Broken()), ("sound", Sound())])
    assert hooks.ask(counters, finished=None) == [["counted"]]  # type: ignore[arg-type, comparison-overlap]
    with pytest.raises(ValueError, match="broken"):
        hooks.ask(chat_commands)

    async def beat(one: TaskQueue, _two: TaskQueue) -> None:
        await one.beat(None)

    play(light, beat)
    failures.clear()
    found = {one.name: one for one in doctor.examine(light.settings())}["features"]
    assert found.state == "warning"
    assert "broken: 1×, most recently in counters: ValueError: broken" in found.sentence


def test_what_runs_in_the_background_fails_alone_and_is_noted() -> None:
    ran = []

    class Fails:
        @hook
        async def background(self) -> None:
            raise ValueError("away")

    class Runs:
        @hook
        async def background(self) -> None:
            await asyncio.sleep(0)
            ran.append("to its end")

    asyncio.run(Hooks([("fails", Fails()), ("runs", Runs())]).run(background))
    assert ran == ["to its end"]
    assert "background: ValueError: away" in failures.pop("fails")
