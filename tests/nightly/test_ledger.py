"""The accounts of a night: each equation holds on a night with every kind of turn, and a count that is off by one stops it."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightly.archive import chat_chunks
from nightly.night.ledger import ENDS, FATES, Ledger, chunk_accounts, whole_ledger
from nightly.steps import build
from shared.errors import LedgerMismatch
from shared.release.manifest import read_manifest
from shared.turns.records import Tombstone
from tests.support.night.indexes.chat_tables import accounts
from tests.support.night.steps import replace_step
from tests.support.world import World

counts = st.dictionaries(st.sampled_from(["1", "-100123", "c"]), st.integers(0, 50), max_size=3)


def ledger_of(fates: list[tuple[str, str]]) -> Ledger:
    made = Ledger()
    for chat, fate in fates:
        made.count("?" if fate == "quarantined" else chat, fate)
        if fate == "quarantined":
            made.reasons["unreadable"] += 1
    return made


@given(st.lists(st.tuples(st.sampled_from(["1", "2"]), st.sampled_from(FATES))))
def test_an_export_adds_up_and_only_as_a_whole(fates: list[tuple[str, str]]) -> None:
    made = ledger_of(fates)
    record = made.to_json(len(fates))
    assert sum(record[fate] for fate in FATES) == record["exported"] == len(fates)
    for wrong in (len(fates) - 1, len(fates) + 1):
        with pytest.raises(LedgerMismatch, match="exported are not"):
            made.to_json(wrong)


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


@given(counts, counts, counts, st.integers(0, 5))
def test_every_archived_turn_is_accounted_for(
    with_chunks: dict[str, int], forgotten: dict[str, int], without_text: dict[str, int], more: int
) -> None:
    archived = Counter(with_chunks) + Counter(forgotten) + Counter(without_text)
    cut = {chat: turns + (more if turns else 0) for chat, turns in with_chunks.items()}
    ends: dict[str, Any] = {
        "with_chunks": with_chunks,
        "forgotten": forgotten,
        "without_text": without_text,
        "chunks": cut,
    }
    accounts = chunk_accounts(archived, **ends)
    assert {chat: a["archived"] for chat, a in accounts.items() if a["archived"]} == dict(archived)
    for chat in archived:
        for by in (-1, 1):
            with pytest.raises(LedgerMismatch, match=f"turns of chat {chat}"):
                chunk_accounts({**archived, chat: archived[chat] + by}, **ends)


def results(*, vectors: bool = True) -> dict[str, dict[str, Any]]:
    """What the steps of a night hand over: two chats, one text that could not be embedded, every end that a turn may have."""
    accounts = chunk_accounts(
        {"1": 5, "2": 2},
        with_chunks={"1": 3, "2": 1},
        forgotten={"1": 1},
        without_text={"1": 1, "2": 1},
        chunks={"1": 4, "2": 1},
    )
    index = {
        "1": {"keywords": 4, "vectors": 3, "not_embedded": 1},
        "2": {"keywords": 1, "vectors": 1, "not_embedded": 0},
    }
    none = {chat: {**row, "vectors": None, "not_embedded": 0} for chat, row in index.items()}
    turns = {"turns_per_chat": {"1": 4, "2": 2}, "forgotten_per_chat": {"1": 1}}
    carried = {
        "archived": 10,
        "with_chunks": 7,
        "forgotten": 2,
        "without_text": 1,
        "chunks": 8,
        "keywords": 8,
        "vectors": 8 * vectors,
    }
    return {
        "archive": copy.deepcopy(EXPORT),
        "chunk": {"accounts": accounts, "chunks": 13, "carried": carried, **turns},
        "build": {"indexes": ["chroma"] if vectors else [], "indexed": index if vectors else none},
        "embed": {"vectors": 4, "not_embedded": 1, "refused": {"a:user#1": "too long"}} if vectors else {"refused": {}},
    }


def whole(steps: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return whole_ledger(steps["archive"], steps["chunk"], steps["build"], steps["embed"], steps["chunk"]["carried"])


TAMPERED = [
    ["archive", "exported"],
    *(["chunk", "accounts", chat, name] for chat in ("1", "2") for name in ("archived", *ENDS, "chunks")),
    ["chunk", "chunks"],
    *(["chunk", "carried", name] for name in ("archived", *ENDS, "chunks", "keywords", "vectors")),
    ["chunk", "turns_per_chat", "1"],
    ["chunk", "turns_per_chat", "unknown chat"],
    ["chunk", "forgotten_per_chat", "1"],
    ["chunk", "forgotten_per_chat", "2"],
    *(["build", "indexed", chat, name] for chat in ("1", "2") for name in ("keywords", "vectors", "not_embedded")),
    ["embed", "vectors"],
]


@pytest.mark.parametrize("path", TAMPERED, ids=".".join)
def test_every_count_between_archive_and_index_is_checked(path: list[str]) -> None:
    for by in (-1, 1):
        with pytest.raises(LedgerMismatch, match="do not add up"):
            whole(changed(results(), path, by))


def lose_a_chat(steps: dict[str, dict[str, Any]]) -> None:
    del steps["build"]["indexed"]["2"]


def index_another_chat(steps: dict[str, dict[str, Any]]) -> None:
    steps["build"]["indexed"]["3"] = {"keywords": 1, "vectors": 1, "not_embedded": 0}


def trade_chunks(steps: dict[str, dict[str, Any]]) -> None:
    """The sums stay, the chats do not: one chat's chunk under another's name."""
    for chat, by in (("1", -1), ("2", 1)):
        for name in ("keywords", "vectors"):
            steps["build"]["indexed"][chat][name] += by


def trade_vectors(steps: dict[str, dict[str, Any]]) -> None:
    """A vector of one chat in the collection of another."""
    for chat, by in (("1", -1), ("2", 1)):
        steps["build"]["indexed"][chat]["vectors"] += by


def drop_the_reason(steps: dict[str, dict[str, Any]]) -> None:
    steps["embed"]["refused"] = {}


def lose_the_vectors_of_a_chat(steps: dict[str, dict[str, Any]]) -> None:
    steps["build"]["indexed"]["2"]["vectors"] = None


def have_vectors_without_an_index(steps: dict[str, dict[str, Any]]) -> None:
    steps["build"]["indexes"] = []


@pytest.mark.parametrize("tamper", [lose_a_chat, index_another_chat, trade_chunks, trade_vectors, drop_the_reason, lose_the_vectors_of_a_chat,
                                    have_vectors_without_an_index])  # fmt: skip
def test_an_index_that_is_not_the_chunks_is_refused(tamper: Callable[[dict[str, Any]], None]) -> None:
    steps = results()
    tamper(steps)
    with pytest.raises(LedgerMismatch):
        whole(steps)


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


def test_a_turn_that_is_mislaid_stops_the_night_before_publish(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    light.say("t1", "one")
    light.say("t2", "two")
    real = chat_chunks.recalled
    monkeypatch.setattr(chat_chunks, "recalled", lambda stored, place: real(stored, place)[:-1])
    with pytest.raises(LedgerMismatch, match="2 archived are not 1 with chunks"):
        light.night()
    assert not (light.memory_dir / "current").exists()
    assert len(light.redis.keys("hcli:memory:*")) == 2


def test_an_index_that_lacks_a_chunk_stops_the_night_before_publish(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    light.say("t1", "one")

    def lacking(night: Any, out: Path) -> dict[str, Any]:
        return changed(build.run(night, out), ["indexed", "9912", "keywords"], -1)

    replace_step(monkeypatch, "build", lacking)
    with pytest.raises(LedgerMismatch, match="chunks of chat 9912: 1 chunks are not 0 keywords"):
        light.night()
    assert not (light.memory_dir / "current").exists()
    assert light.redis.exists("hcli:memory:t1:user")


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
    told = "embed, 2025-11-22 12:00 (Asia/Tokyo): EmbeddingError (13): Ollama is away. Start it."
    assert f"Night 1 is unfinished, stopped at {told}" in stopped
    assert "turns: 1 archived = 1 in 1 chunks + 0 forgotten + 0 without text\n" in stopped
    light.night()
    finished = light.command("hmem-night", "status").stdout
    assert f"had stopped at {told}\n  it was finished later" in finished
    assert json.loads(light.command("hmem-night", "status", "--json").stdout)[0]["failed"] == FAILED
