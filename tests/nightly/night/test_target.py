"""A day host over ssh whose program is of another version: its answers lack fields, or its current release has another format."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from nightly.night.target import SshTarget
from shared.errors import PublishFailed
from shared.release.manifest import FORMAT_VERSION
from tests.support.night.receiving import older_manifest
from tests.support.world import World

CURRENT: dict[str, Any] = {
    "current": None, "attempt": 7, "newest": 3, "lacking": [], "served": [], "release_format": FORMAT_VERSION, "program": "0.1.0",
}  # fmt: skip


def target(light: World, answer: object) -> SshTarget:
    """A day host that gives this answer to every verb."""
    said = light.root / "answer"
    said.write_bytes(orjson.dumps(answer))
    command = shlex.join([sys.executable, "-c", f"print(open({str(said)!r}).read())"])
    return SshTarget(light.settings(release_command=command), "day:/memory")


@pytest.mark.parametrize(
    "lacking", ["current", "newest", "served", "attempt", "lacking", "pinned", "alias", "held", "release_format"]
)
def test_an_answer_that_lacks_a_field_asks_to_update_the_day_host(
    light: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    (tmp_path / "manifest.json").touch()
    monkeypatch.setattr("nightly.night.target.transfer", lambda *_: 0)
    asked: dict[str, Any] = {
        "current": SshTarget.current,
        "newest": SshTarget.standing,
        "served": SshTarget.served,
        "attempt": lambda host: host.bring(tmp_path, 4, accept=False),
        "lacking": lambda host: host.bring(tmp_path, 4, accept=False),
        "pinned": lambda host: host.switch(4, 1),
        "alias": lambda host: host.switch(4, 1),
        "held": SshTarget.prune,
        "release_format": SshTarget.standing,
    }
    whole: dict[str, Any] = CURRENT | {"pinned": None, "alias": None, "held": []}
    answer = {name: value for name, value in whole.items() if name != lacking}
    with pytest.raises(PublishFailed, match=f"has no '{lacking}'.*Update hcli-memory on the day host"):
        asked[lacking](target(light, answer))


def test_a_current_release_of_an_older_format_there_is_none_to_continue(light: World) -> None:
    light.say("t1", "the boiler broke")
    light.night()
    record = orjson.loads(older_manifest((light.memory_dir / "current").resolve()))
    assert target(light, CURRENT | {"current": record}).standing() == (None, 3)
