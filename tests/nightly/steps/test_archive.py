"""What a night archives: odd, malformed and large turns, quarantine, tombstones, versions, and damage to what is there."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from nightly.archive.segments import Segment
from nightly.cli.status import sentence
from nightly.steps import flush
from shared.errors import ArchiveDamaged, ReleaseRefused
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.turns.records import Tombstone
from tests.support.night.archives import texts
from tests.support.night.indexes.chat_tables import summaries
from tests.support.night.steps import replace_step
from tests.support.world import World

MALFORMED: dict[str, bytes] = {
    "bad-json:user": b'{"chat_id": "1", "role"',
    "a-list:user": b'["chat_id"]',
    "no-chat:user": b'{"role":"user","content":"x","timestamp":1,"task_id":"no-chat"}',
    "bool-chat:user": b'{"chat_id":true,"role":"user","content":"x","timestamp":1,"task_id":"bool-chat"}',
    "number-content:user": b'{"chat_id":"1","role":"user","content":7,"timestamp":1,"task_id":"number-content"}',
    "text-time:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":"noon","task_id":"text-time"}',
    "huge-time:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":1e400,"task_id":"huge-time"}',
    "not-utf8:user": b'{"chat_id":"1","role":"user","content":"\xff\xfe","timestamp":1,"task_id":"not-utf8"}',
    "deep:user": b"[" * 100_000,
    "role-lies:user": b'{"chat_id":"1","role":"asst","content":"x","timestamp":1,"task_id":"role-lies"}',
    "task-lies:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":1,"task_id":"other"}',
    "unknown-role:system": b'{"chat_id":"1","role":"system","content":"x","timestamp":1,"task_id":"unknown-role"}',
    "space in id:user": b'{"chat_id":"1","role":"user","content":"x","timestamp":1,"task_id":"space in id"}',
    "empty:user": b"",
}


def test_malformed_keys_are_quarantined_with_their_bytes(light: World) -> None:
    for name, value in MALFORMED.items():
        light.redis.set(f"hcli:memory:{name}", value)
    light.redis.hset("hcli:memory:a-hash:user", mapping={"chat_id": "1", "content": "in a hash"})
    light.redis.rpush("hcli:memory:a-list-key:asst", "in", "a", "list")
    light.redis.set(b"hcli:memory:\xff\xfe:user", b"key is no utf-8")
    light.say("good", "a sound turn", chat_id="1")
    (summary,) = light.night()
    bad = len(MALFORMED) + 3
    assert (summary["exported"], summary["new"], summary["quarantined"], summary["deleted"]) == (
        bad + 1,
        1,
        bad,
        bad + 1,
    )
    assert sum(summary["reasons"].values()) == bad
    lines = list(Segment(light.night_dir / "archive" / "seg-1.jsonl"))
    quarantined = {_bytes(line, "key"): line for line in lines if line["kind"] == "quarantine"}
    for name, value in MALFORMED.items():
        line = quarantined[f"hcli:memory:{name}".encode()]
        assert _bytes(line, "value") == value
        assert line["reason"]
    hashed = quarantined[b"hcli:memory:a-hash:user"]
    light.redis.restore("restored", 0, _bytes(hashed, "value"))
    assert light.redis.hgetall("restored") == {b"chat_id": b"1", b"content": b"in a hash"}
    assert list(texts(light)) == ["good:user#1"]


def _bytes(line: dict[str, Any], name: str) -> bytes:
    return str(line[name]).encode() if name in line else base64.b64decode(line[f"{name}_base64"])


def test_quarantined_bytes_are_not_flushed_unless_archived(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof reads the archive from the disk: without the segment, nothing is deleted."""
    light.redis.set("hcli:memory:bad:user", b"{")
    light.say("good", "a sound turn")
    real_flush = flush.run

    def without_segment(night: Any, out: Path) -> dict[str, Any]:
        (night.archive_dir / "seg-1.jsonl").unlink()
        return real_flush(night, out)

    replace_step(monkeypatch, "flush", without_segment)
    (summary,) = light.night()
    assert summary["deleted"] == 0
    assert light.redis.exists("hcli:memory:bad:user", "hcli:memory:good:user") == 2


ODD_CHATS = ["-100123", "../../etc", "a/b", "*", "x" * 200, "..", "Case", "case", "чат", "c1", "a b", "%00", 'q"uote']


def test_odd_chat_ids_keep_to_themselves(light: World) -> None:
    for number, chat in enumerate(ODD_CHATS):
        light.say(f"t{number}", f"the canary of this chat is canary{number:03}", chat_id=chat)
    light.night()
    release = (light.memory_dir / "current").resolve()
    assert len(summaries(release)) == len(ODD_CHATS)
    opened = OpenRelease(light.settings(), release)
    try:
        for number, chat in enumerate(ODD_CHATS):
            assert [hit.chunk.chat_id for hit in opened.recall(Query(chat, "canary", 50)).hits] == [chat]
            assert f"canary{number:03}" in (opened.summary(chat) or "")
            for other in range(len(ODD_CHATS)):
                hits = opened.recall(Query(chat, f'canary{other:03} OR chat_id:* "c{other + 1}"', 50)).hits
                assert all(hit.chunk.chat_id == chat for hit in hits)
        assert opened.recall(Query("nobody", "canary", 50)).hits == []
        assert opened.summary("nobody") is None
    finally:
        opened.close()


def test_chat_ids_that_are_none_are_refused(light: World) -> None:
    chats = ["", "   ", "a\nb", "x" * 257, "nul\x00", "0", " 7"]
    for number, chat in enumerate(chats):
        turn = {"chat_id": chat, "role": "user", "content": "x", "timestamp": 1}
        light.redis.set(f"hcli:memory:t{number}:user", json.dumps(turn))
    (summary,) = light.night()
    assert (summary["quarantined"], summary["new"]) == (len(chats), 0)
    assert light.command("hmem", "search", "--", "a\nb", "x", check=False).returncode == 24


@pytest.mark.slow
def test_tombstones_are_applied_for_ever(light: World) -> None:
    light.say("t1", "keep the cat", timestamp=100.0)
    light.say("t2", "forget the dog", timestamp=200.0)
    light.say("t3", "forget the fish", chat_id="77", timestamp=100.0)
    light.night()
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s1", "9912", 300.0, turn_ids=frozenset({"t2:user"})).to_json())
    light.redis.rpush("hcli:mem:tombstones", Tombstone("s2", "77", 300.0).to_json())
    (summary,) = light.night()
    assert summary["published"]
    assert list(texts(light)) == ["t1:user#1"]
    light.redis.delete("hcli:mem:tombstones")
    light.say("t2", "forget the dog, said again by a retry", timestamp=201.0)
    light.say("t4", "a new start", chat_id="77", timestamp=400.0)
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t4:user#1"]


def test_an_unreadable_tombstone_is_refused_and_stops_nothing(light: World) -> None:
    light.say("t1", "something")
    light.redis.rpush("hcli:mem:tombstones", b"{}")
    (night,) = light.night()
    assert night["refused_tombstones"] == {"it cannot be read: task_id must match [A-Za-z0-9_-]{1,100}": 1}
    assert "refused: 1 × a tombstone in Redis (it cannot be read" in sentence(night)
    assert list(texts(light)) == ["t1:user#1"]
    assert not light.redis.exists("hcli:memory:t1:user")


def test_a_turn_cannot_move_to_another_chat(light: World) -> None:
    light.say("t1", "mine", chat_id="9912")
    light.night()
    light.say("t1", "now in another chat", chat_id="77")
    (summary,) = light.night()
    assert summary["quarantined"] == 1
    assert texts(light) == {"t1:user#1": "mine"}


def test_a_value_that_comes_back_is_the_last_version(light: World) -> None:
    for content in ("version A", "version B", "version A"):
        light.say("t1", content)
        (summary,) = light.night()
    assert summary["new_versions"] == 1
    assert texts(light) == {"t1:user#1": "version A"}


def test_a_restored_segment_lets_the_same_night_go_on(light: World) -> None:
    light.say("t1", "old")
    light.night()
    segment, away = light.night_dir / "archive" / "seg-1.jsonl", light.root / "away"
    segment.rename(away)
    light.say("t2", "new")
    with pytest.raises(ReleaseRefused):
        light.night()
    assert light.command("hmem-night", "verify", check=False).returncode == ArchiveDamaged.exit_code
    away.rename(segment)
    light.night()
    assert sorted(texts(light)) == ["t1:user#1", "t2:user#1"]
