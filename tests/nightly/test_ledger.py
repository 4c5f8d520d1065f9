"""The accounts of a night: each equation holds on a night with every kind of turn, and a count that is off by one stops it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from nightly.night.ledger import ACCOUNT, ENDS, FATES, Ledger, whole_ledger
from shared.errors import LedgerMismatch
from shared.release.manifest import read_manifest
from shared.turns.records import Tombstone
from tests.support.night.indexes.chat_tables import accounts
from tests.support.world import World


def ledger_of(fates: list[tuple[str, str]]) -> Ledger:
    made = Ledger()
    for chat, fate in fates:
        made.count("?" if fate == "quarantined" else chat, fate)
        if fate == "quarantined":
            made.reasons["unreadable"] += 1
    return made


EXPORT: dict[str, Any] = ledger_of(
    [("1", "new"), ("1", "new_version"), ("2", "already_archived"), ("2", "quarantined"), ("2", "new")]
).to_json(5)


def changed(record: dict[str, Any], path: list[str], by: int) -> dict[str, Any]:
    """A copy with one number changed."""
    made = copy.deepcopy(record)
    inner = made
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = inner.get(path[-1], 0) + by
    return made


def results() -> dict[str, dict[str, Any]]:
    """What the steps of a night hand over: two chats, one text that could not be embedded, every end that a turn may have."""
    accounts = {
        chat: dict(zip(ACCOUNT, counts, strict=True))
        for chat, counts in (("1", (5, 4, 3, 1, 1, 4)), ("2", (2, 2, 1, 0, 1, 1)))
    }
    index = {
        "1": {"keywords": 4, "vectors": 3, "not_embedded": 1},
        "2": {"keywords": 1, "vectors": 1, "not_embedded": 0},
    }
    carried = dict(zip(ACCOUNT, (10, 8, 7, 2, 1, 8), strict=True)) | {
        "keywords": 8,
        "vectors": 8,
        "not_embedded": 0,
    }
    return {
        "archive": copy.deepcopy(EXPORT),
        "chunk": {"accounts": accounts, "turns": 14, "chunks": 13, "carried": carried},
        "build": {"indexes": ["chroma"], "indexed": index},
        "embed": {"vectors": 4, "not_embedded": 1, "refused": {"a:user#1": "too long"}},
    }


def whole(steps: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return whole_ledger(steps["archive"], steps["chunk"], steps["build"], steps["embed"])


TAMPERED = [
    ["archive", "exported"],
    *(["chunk", "accounts", chat, name] for chat in ("1", "2") for name in ACCOUNT),
    ["chunk", "turns"],
    ["chunk", "chunks"],
    *(["chunk", "carried", name] for name in (*ACCOUNT, "keywords", "vectors", "not_embedded")),
    *(["build", "indexed", chat, name] for chat in ("1", "2") for name in ("keywords", "vectors", "not_embedded")),
    ["embed", "vectors"],
]


@pytest.mark.parametrize("path", TAMPERED, ids=".".join)
def test_every_count_between_archive_and_index_is_checked(path: list[str]) -> None:
    for by in (-1, 1):
        with pytest.raises(LedgerMismatch, match="do not add up"):
            whole(changed(results(), path, by))


def a_mixed_night(world: World) -> None:
    """Two chats; a turn with a second version, one quarantined, one forgotten, one without a readable character."""
    world.say("t1", "first wording")
    world.night()
    world.say("t1", "second wording")
    world.say("t2", "forget the fish")
    world.say("t3", "\x1b[2J \n")
    world.say("t4", "The heron stood at the pond. " * 100, chat_id="77")
    world.redis.set("hcli:memory:bad:user", b"{")
    world.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 1.0, turn_ids=frozenset({"t2:user"})).to_json())
    world.night()


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, True])
def test_a_night_of_every_kind_adds_up_in_manifest_and_status(world: World, vectors: bool) -> None:
    if not vectors:
        world.environment = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}
    a_mixed_night(world)
    ledger = read_manifest((world.memory_dir / "current").resolve()).ledger
    assert {fate: ledger[fate] for fate in ("exported", *FATES)} == {
        "exported": 5, "new": 3, "new_version": 1, "already_archived": 0, "quarantined": 1,
    }  # fmt: skip
    assert ledger["turns"] == {"archived": 4, "with_chunks": 2, "forgotten": 1, "without_text": 1}
    counts = accounts((world.memory_dir / "current").resolve())
    account, chunks = counts["9912"], counts["77"]["chunks"]
    assert [account[name] for name in ("archived", *ENDS, "chunks", "keywords")] == [3, 1, 1, 1, 1, 1]
    assert chunks > 1
    assert ledger["index"] == {"keywords": chunks + 1, "vectors": chunks + 1 if vectors else None}
    held = f"{chunks + 1} vectors + 0 not embedded" if vectors else "no vectors"
    line = f"turns: 4 archived = 2 in {chunks + 1} chunks + 1 forgotten + 1 without text; index: {chunks + 1} keywords, {held}"
    assert line in world.command("hmem-night", "status").stdout
    (_, second) = json.loads(world.command("hmem-night", "status", "--json").stdout)
    assert second["ledger"]["archived"] == 4
    rows = [row.split() for row in world.command("hmem-night", "status", "--chats").stdout.splitlines()[-2:]]
    vector = [str(chunks), "0"] if vectors else ["-", "0"]
    assert rows[1] == ["77", "1", "1", "0", "0", str(chunks), str(chunks), *vector]


FAILED = {
    "run": 3,
    "step": "embed",
    "error": "EmbeddingError",
    "sentence": "Ollama is away. Start it.",
    "exit_code": 13,
    "at": 1_763_780_400.0,
}


@pytest.mark.slow
def test_status_says_where_a_night_stopped_and_that_it_was_finished(light: World) -> None:
    light.environment["CHAT_TIMEZONE"] = "Asia/Tokyo"
    light.say("t1", "something")
    light.command("hmem-night", "run", check=False, HMEM_CRASH_AT="embed:begun")
    cut_off = light.command("hmem-night", "status").stdout
    assert "Night 1 is unfinished: it was interrupted, or is running now." in cut_off
    assert "done: export, archive, chunk, note, dream; hmem-night run continues there" in cut_off
    (light.night_dir / "nights" / "1" / "failed.json").write_text(json.dumps(FAILED))
    stopped = light.command("hmem-night", "status").stdout
    told = "embed, 2025-11-22 12:00 (Asia/Tokyo): Ollama is away. Start it. (exit code 13)"
    assert f"Night 1 is unfinished, stopped at {told}" in stopped
    assert "turns: 1 archived = 1 in 1 chunks + 0 forgotten + 0 without text\n" in stopped
    light.night()
    finished = light.command("hmem-night", "status").stdout
    assert f"had stopped at {told}\n  it was finished later" in finished
    assert json.loads(light.command("hmem-night", "status", "--json").stdout)[0]["failed"] == FAILED
