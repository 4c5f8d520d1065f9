"""A release of the version before, with one file for each index: it goes on being read, and is a place to go back to."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson

from shared.release import LEXICAL, MANIFEST, VECTORS, Manifest, read_manifest, seal, verify
from tests.conftest import World


def made_old(release: Path) -> None:
    """As version 3 laid it out: `repeated` led to rows, not to chunks."""
    for place in (LEXICAL, VECTORS):
        (part,) = (release / place).iterdir()
        part.rename(release / f"{place}.sqlite")
        (release / place).rmdir()
    with closing(sqlite3.connect(release / f"{VECTORS}.sqlite")) as connection, connection:
        connection.execute("PRAGMA user_version = 1")
        rows = connection.execute(
            "SELECT c.chat_no, c.repeated, b.ids FROM chats AS c JOIN blocks AS b USING (chat_no)"
        )
        for number, repeated, ids in rows.fetchall():
            named = orjson.loads(ids)
            led = {again: named.index(first) for again, first in orjson.loads(repeated).items()}
            assert led, "somebody repeats himself"
            connection.execute("UPDATE chats SET repeated = ? WHERE chat_no = ?", (orjson.dumps(led), number))
    manifest = read_manifest(release)
    (release / MANIFEST).unlink()
    seal(release, Manifest(**(vars(manifest) | {"format_version": 3})))


def test_it_is_read_followed_and_gone_back_to(world: World) -> None:
    world.say("t1", "Noor keeps bees on the roof")
    world.say("t2", "OK")
    world.say("t3", "OK")
    world.night()
    old = world.memory_dir / "releases" / "1"
    made_old(old)
    verify(old)

    def found() -> list[str]:
        told = json.loads(world.command("hmem", "search", "9912", "who looks after insects?", "--json").stdout)
        assert told["degraded"] == []
        return [hit["turn_ids"][0] for hit in told["hits"]]

    assert found()[0] == "t1:user", "by its meaning"
    assert "is as it was built: 3 turns" in world.command("hmem", "doctor", check=False).stdout
    world.command(
        "hmem", "export", "--chat=9912", "--out", str(world.root / "out"), HMEM_NIGHT_DIR=str(world.root / "none")
    )
    assert "Noor keeps bees" in (world.root / "out" / "conversation.md").read_text()
    world.say("t4", "the wifi is called heron")
    world.night()
    assert read_manifest(world.memory_dir / "releases" / "2").format_version == 4
    assert sorted(found()) == ["t1:user", "t2:user", "t4:user"]
    world.command("hmem", "release", "rollback")
    assert sorted(found()) == ["t1:user", "t2:user"]
