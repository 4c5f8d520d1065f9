"""`hmem forget --chat`: canaries in every layer of the day host are seen by the scan before, and gone after; nothing of others is touched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.request import ForgetRequest, Scope
from dispatcher.chat_data.forget.scan import Proof
from dispatcher.chat_data.forget.select import released_chunks
from dispatcher.chat_data.forget.steps import open_context
from dispatcher.memory.tombstones import FORGOTTEN
from shared.system.byte_scan import Needles
from tests.support.day.forgetting_world import CANARIES, CHAT, OTHER, OTHERS, hmem, keys_of, planted, result_of
from tests.support.world import World


@pytest.fixture
def at_home(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process looks for Claude's files where the world's commands do."""
    monkeypatch.setenv("HOME", str(light.root))
    monkeypatch.setenv("TMPDIR", str(light.root / "tmp"))
    light.environment["TMPDIR"] = str(light.root / "tmp")


def found_places(world: World) -> set[str]:
    """Where the scan finds a canary."""
    with open_context(world.settings(), world.redis, lambda _: None) as context:
        scope = Scope(ForgetRequest("chat", CHAT), [])
        proof = Proof(context.settings, context.client, context.store, context.tasks, scope)
        scanned = proof.look(Needles.of(CANARIES), archive=True)
    return {one.place.replace(str(world.root), "") for one in scanned.found}


@pytest.mark.slow
def test_the_preview_says_what_a_night_does(light: World, at_home: None) -> None:
    planted(light)
    light.command("hmem-night", "run")
    light.command("hmem", "release", "rollback", "--yes", "1")
    shown = hmem(light, "forget", f"--chat={CHAT}", ARCHIVE_MIRROR="/mnt/mirror").stdout
    assert "a night will run at once, builds a release without it and removes those with it" in shown
    assert "The mirror /mnt/mirror loses it, too." in shown
    assert "The pin is removed" in shown
    assert not [one for one in CANARIES if one in shown.partition("Archive:")[2]]
    (record,) = json.loads(hmem(light, "forget", f"--chat={CHAT}", "--yes", "--json").stdout)
    assert record["layers"]["releases"]["removed"] >= 2, "as it was said"
    assert not (light.memory_dir / "pinned").exists()


def left_alone(world: World, before: dict[bytes, bytes]) -> None:
    """The other chat is as it was, but for its turns that the night has taken into the archive."""
    archived = {key for key in before if key.startswith(b"hcli:memory:")}
    now = keys_of(world, OTHER)
    assert {key: now.get(key) for key in before if key not in archived} == {
        key: value for key, value in before.items() if key not in archived
    }
    assert [text for text in OTHERS if text not in released(world)] == []
    tasks: Any = world.redis.lrange("hcli:tasks", 0, -1)
    assert [json.loads(raw)["message"] for raw in tasks] == OTHERS
    assert world.redis.llen("hcli:mem:dead") == 4
    store = StoreLayer(world.settings())
    assert (len(list(store.turns.every())), store.memories.count(), len(list(store.summaries.every()))) == (2, 2, 2)
    store.close()
    assert (world.root / "state" / "chats" / OTHER / "notes.txt").read_text() == "\n".join(OTHERS)
    assert len(list((world.root / ".claude" / "projects").rglob("*.jsonl"))) == 2


def released(world: World) -> set[str]:
    return {chunk.text for chunk in released_chunks(world.settings())}


@pytest.mark.slow
def test_a_chat_up_to_a_time(light: World, at_home: None) -> None:
    planted(light)
    (record,) = json.loads(hmem(light, "forget", f"--chat={CHAT}", "--before=2025-01-01", "--yes", "--json").stdout)
    assert record["complete"], record
    assert record["scan"]["also_said_elsewhere"] > 0, "it was said again later"
    assert light.redis.exists(f"hcli:memory:new-{CHAT}-0:user") == 0, "the night has archived what is younger"
    assert CANARIES[0] in released(light)
    assert light.redis.llen("hcli:mem:dead") == 8
    again = hmem(light, "forget", f"--chat={CHAT}", "--before=4000000000", "--yes")
    assert (again.returncode, "is in the future" in again.stderr) == (24, True)


STEPS = "journal hidden announced ended redis store claude files night caches scanned receipt".split()


def test_killed_anywhere_it_goes_on(light: World, at_home: None) -> None:
    others = planted(light)
    before = found_places(light)
    for place in (
        "redis: hcli:memory:", "redis: hcli:results:", "redis: hcli:mem:dead", "redis: hcli:mem:tags", "redis: hcli:mem:outbox:",
        "redis: hcli:mem:partial:", "redis: hcli:mem:bot:waiting:", "redis: hcli:session_history:", "redis: hcli:mem:why:", "redis: hcli:tasks",
        "/state/chats/9912/notes.txt",
    ):  # fmt: skip
        assert place in before, place
    assert any(place.startswith("/state/day-store.sqlite") for place in before)
    assert any("/.claude/projects/" in place for place in before)
    assert any(place.startswith("/state/prompts/") for place in before)
    assert any(place.startswith("/night/archive/") for place in before)
    arguments = ["forget", f"--chat={CHAT}", "--yes"]
    for step in STEPS:
        died = hmem(light, *arguments, HMEM_CRASH_AT=f"forget:{step}")
        assert died.returncode == -9, (step, died.stderr)
        assert unfinished_names(light.root / "state")
        arguments = ["forget", "--resume"]
    assert "unfinished" in hmem(light, "forget", "--list").stdout
    (record,) = json.loads(hmem(light, "forget", "--resume", "--json").stdout)
    assert record["complete"], record
    assert not any(word in json.dumps(record, ensure_ascii=False) for word in ("zanzibar", "жираф"))
    assert {result_of(light, f"queued-{CHAT}-{n}") for n in (0, 1)} == {FORGOTTEN}
    assert found_places(light) == set()
    assert not light.redis.hexists("hcli:mem:holds", CHAT)
    left_alone(light, others)
    assert "Nothing is unfinished." in hmem(light, "forget", "--resume").stderr
