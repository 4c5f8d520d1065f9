"""What OpenClaw, Basic Memory and Mem0 remember: facts with their times, as turns that say where they are from."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nightly.imports.formats import recognised
from shared.errors import InvalidInput
from shared.turns.origin_words import said_by
from tests.nightly.imports.exports.builders import (
    NOON,
    claude_conversation,
    claude_message,
    gpt_conversation,
    gpt_node,
    left,
    read,
    said,
    turns,
    unread,
    written,
    zipped,
)

LASTING = """# Memory

## Preferences
- likes tea
  - green, without sugar
- [ ] calls his mother on Sundays

### At work
1. speaks **German**

A paragraph
of two lines.
```
- no item
```
"""
DAY = "# 2026-02-08\n\n---\n\n- bought a heron\n- bought a heron\n## 14:30 boiler\nThe boiler leaks.\n- 15:05 called the plumber\n"


def workspace(root: Path) -> Path:
    for name, content in {"MEMORY.md": LASTING, "memory/2026-02-08.md": DAY, "memory/projects/roof.md": "Roof: new tiles",
                          "AGENTS.md": "not memory", "DREAMS.md": "a dream"}.items():  # fmt: skip
        os.utime(written(root / name, content), (NOON, NOON))
    return root


def test_openclaws_memory(tmp_path: Path) -> None:
    reads = read("openclaw", workspace(tmp_path / "ws"))
    found = {turn.content: turn.timestamp for turn in turns(reads)}
    noon = NOON - 86_400 - 3600  # of 8 February in Berlin
    assert found == {
        "Preferences: likes tea\n  - green, without sugar": NOON,
        "Preferences: [ ] calls his mother on Sundays": NOON,
        "Preferences: At work: speaks **German**": NOON,
        "Preferences: At work: A paragraph\nof two lines.\n```\n- no item\n```": NOON,
        "bought a heron": noon,
        "14:30 boiler: The boiler leaks.": noon + 2.5 * 3600,
        "14:30 boiler: 15:05 called the plumber": noon + 3 * 3600 + 300,
        "Roof: new tiles": NOON,
    }
    assert len(turns(reads)) == 9, "twice the same on one day is two"
    assert left(reads) == ["a line without words"]
    first = turns(reads)[0]
    assert said_by("user", first.origin) == "user (forwarded from OpenClaw's memory)"
    assert first.extra["source"] == "openclaw"


def test_a_memory_that_was_moved_or_grew_has_the_same_ids(tmp_path: Path) -> None:
    before = {turn.turn_id for turn in turns(read("openclaw", workspace(tmp_path / "a")))}
    moved = workspace(tmp_path / "b" / "deep")
    os.utime(written(moved / "MEMORY.md", LASTING + "\n- a new fact\n"), (NOON + 9, NOON + 9))
    after = {turn.turn_id for turn in turns(read("openclaw", tmp_path / "b"))}
    assert len(after - before) == 1
    assert before < after
    files = {str(path.relative_to(moved)): path.read_bytes() for path in moved.rglob("*.md")}
    packed = read("openclaw", written(tmp_path / "ws.zip", zipped(files)))
    assert {turn.turn_id for turn in turns(packed)} == after


NOTE = """---
title: "Coffee Brewing"
type: note
tags: [coffee]
permalink: coffee/brewing
created: 2026-02-08T12:00:00+01:00
---

# Coffee Brewing

## Observations
- [method] Pour over gives more clarity #brewing (own experience)
- [ ] buy filters

## Relations
- relates_to [[Coffee Beans]]

Some prose about it.
"""


def test_basic_memorys_notes(tmp_path: Path) -> None:
    root = tmp_path / "kb"
    os.utime(written(root / "notes" / "coffee.md", NOTE), (NOON, NOON))
    os.utime(written(root / "plain.md", "- [fact] without front matter"), (NOON, NOON))
    written(root / ".hidden" / "hidden.md", "- [fact] settings")
    reads = read("basic-memory", root)
    created = NOON - 86_400 - 3600
    assert [(turn.content, turn.timestamp) for turn in turns(reads)] == [
        ("Coffee Brewing: [method] Pour over gives more clarity #brewing (own experience)", created),
        ("Coffee Brewing: [ ] buy filters", created),
        ("Coffee Brewing: relates_to [[Coffee Beans]]", created),
        ("Coffee Brewing: Some prose about it.", created),
        ("plain: [fact] without front matter", NOON),
    ]
    assert unread(reads) == []


def test_a_note_has_the_same_ids_from_wherever_it_is_named(tmp_path: Path) -> None:
    note = "- [fact] without front matter"
    root = tmp_path / "bm"
    written(root / "notes" / "plain.md", note)
    written(root / "notes" / "coffee.md", NOTE.replace("permalink: coffee/brewing\n", ""))
    files = {f"bm/notes/{one.name}": one.read_bytes() for one in (root / "notes").iterdir()}
    ways = [root, root / "notes", tmp_path, written(tmp_path / "bm.zip", zipped(files))]
    found = [sorted(turn.turn_id for turn in turns(read("basic-memory", way))) for way in ways]
    written(root / "notes" / "coffee.md", NOTE)
    found.append(sorted(turn.turn_id for turn in turns(read("basic-memory", root))))
    assert all(ids == found[0] for ids in found)
    assert len(found[0]) == 5
    written(root / "other" / "plain.md", note)
    assert len({turn.turn_id for turn in turns(read("basic-memory", root))}) == 6, "two notes of one title are two"


def test_mem0_in_each_of_its_shapes(tmp_path: Path) -> None:
    one = {
        "id": "m1",
        "memory": "Name is Ann",
        "user_id": "ann",
        "created_at": "2026-02-08T12:00:00Z",
        "updated_at": None,
    }
    changed = {
        "id": "m2",
        "memory": "Lives in Rome",
        "user_id": "ann",
        "created_at": "2026-02-08T12:00:00Z",
        "updated_at": "2026-02-09T12:00:00+00:00",
    }
    backup = {"user": {"id": "u"}, "apps": [], "memories": [
        {"id": "m3", "user_id": "u", "content": "Has a dog", "state": "active", "created_at": "2026-02-09T12:00:00+00:00"},
        {"id": "m4", "user_id": "u", "content": "Had a cat", "state": "deleted", "created_at": "2026-02-09T12:00:00+00:00"}]}  # fmt: skip
    listed = read("mem0", written(tmp_path / "a.json", [one, changed]))
    assert [(turn.content, turn.timestamp) for turn in turns(listed)] == [
        ("Name is Ann", NOON - 86_400),
        ("Lives in Rome", NOON),
    ]
    results = read("mem0", written(tmp_path / "b.json", json.dumps({"count": 2, "results": [one, changed]})))
    assert [turn.turn_id for turn in turns(results)] == [turn.turn_id for turn in turns(listed)]
    packed = zipped({"memories.json": json.dumps(backup), "memories.jsonl.gz": b"\x1f\x8b"})
    reads = read("mem0", written(tmp_path / "c.zip", packed))
    assert said(reads) == [("user", "Has a dog")]
    assert left(reads) == ["deleted or archived there"]
    assert turns(reads)[0].origin.forward is not None


def test_memories_of_several_users_do_not_mix(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "memory": f"fact {n}", "user_id": user, "created_at": "2026-02-09T12:00:00Z"}
        for n, user in enumerate("ab")
    ]
    path = written(tmp_path / "a.json", rows)
    with pytest.raises(InvalidInput, match="--only"):
        read("mem0", path)
    assert said(read("mem0", path, only="b")) == [("user", "fact 1")]


def test_what_chatgpt_and_claude_remember_comes_along(tmp_path: Path) -> None:
    """ChatGPT notes while it talks; Claude's export has a file of it."""
    noted = gpt_node("b", "q", "assistant", "Is allergic to nuts.", NOON + 1, recipient="bio")
    nodes = gpt_node("q", "root", "user", "no nuts for me"), noted, gpt_node("a", "b", "assistant", "Noted.", NOON + 2)
    found = turns(read("chatgpt", written(tmp_path / "conversations.json", [gpt_conversation(*nodes)])))
    assert [(one.role, one.content, one.extra.get("answers")) for one in found] == [
        ("user", "no nuts for me", None),
        ("user", "Is allergic to nuts.", None),
        ("asst", "Noted.", found[0].task_id),
    ]
    assert found[1].extra["forward"] == {"from": "ChatGPT's memory"}
    memory = [
        {
            "conversations_memory": "**Home**\n\nLives in Porto.\n\n- has a cat",
            "project_memories": {"p1": "Builds a boat."},
        }
    ]
    files = {"conversations.json": json.dumps([claude_conversation(claude_message("q", "human", "hello"))])}
    both = written(tmp_path / "export.zip", zipped(files | {"memories.json": json.dumps(memory)}))
    told = ["Home: Lives in Porto.", "Home: has a cat", "Builds a boat."]
    assert [one.content for one in turns(read("claude", both))] == [*told, "hello"]
    alone = written(tmp_path / "memories.json", memory)
    assert [one.name for one, _ in recognised(alone)] == ["claude"]
    assert [one.content for one in turns(read("claude", alone))] == told


def test_a_list_that_an_assistant_wrote_is_read(tmp_path: Path) -> None:
    text = "Here is all that I know:\n```\n[2025-11-02] - likes short answers\n- [unknown] – plays the oboe\n[2025-13-77]: no day\n```\n"
    path = written(tmp_path / "list.txt", text)
    assert [one.name for one, _ in recognised(path)] == ["memory-list"]
    found = turns(read("memory-list", path))
    assert [one.content for one in found] == ["likes short answers", "plays the oboe", "no day"]
    assert datetime.fromtimestamp(found[0].timestamp, UTC) == datetime(2025, 11, 2, 11, tzinfo=UTC), "noon in Berlin"


def test_claude_codes_memory(tmp_path: Path) -> None:
    root = tmp_path / "project" / "memory"
    written(root / "MEMORY.md", "# Memory\n- [Testing](testing.md): how tests run\n")
    written(root / "testing.md", "---\nname: testing\ntype: feedback\n---\n\nTests run on a **real** Redis.\n")
    assert [one.name for one, _ in recognised(root)] == ["openclaw"]
    found = turns(read("openclaw", root))
    assert [one.content for one in found] == ["[Testing](testing.md): how tests run", "Tests run on a **real** Redis."]
    assert said_by("user", found[0].origin) == "user (forwarded from MEMORY.md)"
    assert [one.turn_id for one in turns(read("openclaw", tmp_path / "project"))] == [one.turn_id for one in found]
