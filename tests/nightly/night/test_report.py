"""What each night leaves in Redis for the morning: its numbers, no word and no id of a chat; and no trouble with either ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from nightly import pipeline
from nightly.steps import restart
from shared.errors import LedgerMismatch, PublishFailed, SettingsError
from shared.wire.keys import NIGHT_FAILED, NIGHT_REPORT
from tests.support.night.steps import failing_step, replace_step
from tests.support.world import World

FIELDS = {
    "run", "finished_at", "seconds", "steps", "exported", "new", "new_versions", "already_archived", "quarantined", "deleted", "chats",
    "turns", "chunks", "refused_tombstones", "gate", "moved", "release_bytes", "free_bytes", "mirror", "writer", "failed",
}  # fmt: skip
CHAT = "-1009876543210"


def report(world: World) -> list[dict[str, Any]]:
    told = json.loads(world.redis.get(NIGHT_REPORT) or "")
    assert set(told) == {"v", "nights"}
    assert told["v"] == 1
    nights: list[dict[str, Any]] = told["nights"]
    assert all(set(night) == FIELDS for night in nights)
    return nights


def test_a_good_night_leaves_its_numbers_and_nothing_of_a_chat(light: World) -> None:
    light.say("t1", "the boiler code is 4711", chat_id=CHAT)
    light.say("t2", "the wifi is called heron")
    light.redis.set("hcli:memory:odd:user", "{")
    light.redis.rpush("hcli:mem:tombstones", "no tombstone")
    (summary,) = light.night()
    (night,) = report(light)
    assert [night[name] for name in ("run", "exported", "new", "quarantined", "deleted")] == [1, 3, 2, 1, 3]
    assert [night[name] for name in ("chats", "turns", "chunks", "refused_tombstones")] == [2, 2, 2, 1]
    assert (night["gate"], night["moved"], night["mirror"], night["failed"]) == (None, None, None, None)
    assert list(night["steps"]) == pipeline.step_names()
    assert night["seconds"] == pytest.approx(sum(night["steps"].values()))
    assert night["finished_at"] == summary["finished_at"]
    assert (
        0
        < night["release_bytes"]
        == sum(
            path.stat().st_size
            for path in (light.memory_dir / "current").resolve().rglob("*")
            if path.is_file() and path.name != "manifest.json"
        )
    )
    assert night["free_bytes"] > 0
    assert 0 < light.redis.ttl(NIGHT_REPORT) <= 14 * 86_400
    told = light.redis.get(NIGHT_REPORT) or b""
    assert not [word for word in (CHAT, "9912", "boiler", "heron", "t1") if word.encode() in told]


def test_a_failed_night_says_where_and_is_good_once_it_is_finished(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    light.say("t1", "something")
    light.night()
    light.say("t2", "more")
    failing_step(monkeypatch, "chunk", PublishFailed("The day host does not answer. Start it."))
    with pytest.raises(PublishFailed):
        light.night()
    _, failed = report(light)
    assert failed["failed"] == {"step": "chunk", "sentence": "The day host does not answer. Start it."}
    assert list(failed["steps"]) == ["export", "archive"]
    assert (failed["new"], failed["turns"], failed["chunks"], failed["deleted"]) == (1, 2, 1, 0)
    assert failed["free_bytes"] > 0
    monkeypatch.undo()
    light.night()
    assert [(night["run"], night["failed"]) for night in report(light)] == [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LedgerMismatch(f"turns of chat {CHAT}: 1 is not 2."), "The counts of the night do not add up; nothing was deleted."),
        (ValueError(f"the boiler code is 4711 in {CHAT}"), "A bug in this program (ValueError)"),
    ],
)  # fmt: skip
def test_why_a_night_failed_is_told_without_what_the_error_quotes(
    light: World, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    light.say("t1", "something", chat_id=CHAT)
    failing_step(monkeypatch, "chunk", error)
    with pytest.raises(type(error)):
        light.night()
    (night,) = report(light)
    assert night["failed"]["sentence"].startswith(told)
    written = light.redis.get(NIGHT_REPORT) or b""
    assert not [word for word in (CHAT.encode(), b"4711") if word in written]


def test_a_night_that_was_refused_is_an_alarm(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "something")
    light.night()
    monkeypatch.setattr(pipeline, "missing_for_night", lambda settings: ["EMBEDDER=x needs the Python package y"])
    with pytest.raises(SettingsError):
        light.night()
    refused = json.loads(light.redis.get(NIGHT_FAILED) or "")
    assert (refused["run"], refused["step"], refused["exit_code"]) == (2, "begin", SettingsError.exit_code)
    assert "needs the Python package y" in refused["sentence"]


def test_a_report_that_redis_refuses_fails_no_night(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "something")
    real = restart.run

    def then_full(night: Any, out: Path) -> dict[str, Any]:
        light.redis.config_set("min-replicas-to-write", "1")  # from now on it refuses every write
        return real(night, out)

    replace_step(monkeypatch, "restart", then_full)
    try:
        with capture_logs() as lines:
            (summary,) = light.night()
    finally:
        light.redis.config_set("min-replicas-to-write", "0")
    assert summary["deleted"] == 1
    assert (light.night_dir / "nights" / "1" / "done.json").exists()
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
        "the report of the nights was not written"
    ]
