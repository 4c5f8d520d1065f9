"""`hmem forget --chat` with encryption at rest: the chat's key is destroyed first, so no copy of anything can be read, and another chat's can."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.memory.store.turns import StoredTurn
from shared.errors import EncryptionKeyMissing
from shared.system.keys import copies, sealing
from shared.system.keys.exchange import Exchange
from shared.system.keys.sealing import Sealing, chat_key, keyring_path
from shared.turns.records import Turn
from tests.support.day.forgetting_world import CANARIES, CHAT, OTHER, OTHERS, hmem, plant_files, plant_store
from tests.support.world import World

#: Each text is in a turn, a memory, a summary and a schedule.
EVERY = {CHAT: sorted(CANARIES * 4), OTHER: sorted(OTHERS * 4)}


@pytest.fixture
def sealed(light: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An installation with a key, in this process and in its commands."""
    key_file = light.root / "keys" / "encrypt.key"
    copies.make_key(key_file)
    light.environment |= {"ENCRYPT_KEY_FILE": str(key_file), "TMPDIR": str(light.root / "tmp")}
    monkeypatch.setenv("HOME", str(light.root))
    begin(light)
    yield light
    sealing.use(None)


def key_of(world: World) -> Path:
    return world.root / "keys" / "encrypt.key"


def begin(world: World) -> None:
    """A new process of the day."""
    sealing.use(lambda: Sealing(key_of(world), "day", Exchange(world.url)))


def planted(world: World) -> None:
    """Both chats in the day store, and in files. There is no archive."""
    world.night_dir.mkdir(mode=0o700)
    for chat, texts in ((OTHER, OTHERS), (CHAT, CANARIES)):
        plant_store(world, chat, texts)
        plant_files(world, chat, texts)


def stored(world: World, state: Path | None = None) -> dict[str, list[str]]:
    """Chat → all texts that can be read in the day store, of this installation or of a copy."""
    found: dict[str, list[str]] = {}
    begin(world)
    store = StoreLayer(world.settings(hmem_state_dir=state or world.root / "state"))
    for chat in (CHAT, OTHER):
        turns = [one.turn.content for one in store.turns.every(chat)]
        memories = [one.text for one in store.memories.every() if one.chat_id == chat]
        summaries = [one.text for one in store.summaries.every() if one.chat_id == chat]
        found[chat] = sorted([*turns, *memories, *summaries, *(one.text for one in store.schedules.every(chat))])
    store.close()
    return found


def forget(world: World, *more: str) -> dict[str, Any]:
    """The receipt; the archive's part is left to a night."""
    done = hmem(world, "forget", *(more or (f"--chat={CHAT}",)), "--yes", "--later", "--json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)[-1]
    return found


def test_a_stale_copy_cannot_be_read_with_todays_keys_and_another_chat_can(sealed: World, tmp_path: Path) -> None:
    planted(sealed)
    assert stored(sealed) == {CHAT: EVERY[CHAT], OTHER: EVERY[OTHER]}
    shutil.copytree(sealed.root / "state", tmp_path / "stale")
    stale_ring = keyring_path(key_of(sealed), "day").read_bytes()
    owner = key_of(sealed).read_bytes()

    record = forget(sealed)
    layers = record["layers"]
    assert layers["encryption: keys of the chat"] == {"destroyed": 1}
    assert layers["encryption: owner's key"] == {"changed": 1}
    assert {
        layers[f"store: {name}"]["removed"] for name in ("turns", "memories", "summaries", "actions", "schedules")
    } == {2}

    assert stored(sealed) == {CHAT: [], OTHER: EVERY[OTHER]}
    assert stored(sealed, tmp_path / "stale") == {CHAT: [], OTHER: EVERY[OTHER]}, (
        "the copy of the store, with the keys of today"
    )
    store = tmp_path / "stale" / "day-store.sqlite"
    with sqlite3.connect(store) as raw:
        assert raw.execute("SELECT count(*) FROM turns WHERE chat_id = ?", (CHAT,)).fetchone() == (2,), (
            "its rows are there"
        )

    assert key_of(sealed).read_bytes() != owner
    keyring_path(key_of(sealed), "day").write_bytes(stale_ring)
    with pytest.raises(EncryptionKeyMissing, match="Put that key back"):
        stored(sealed)
    key_of(sealed).write_bytes(owner)
    assert stored(sealed, tmp_path / "stale")[CHAT] == EVERY[CHAT], (
        "whoever has key, keyring and store of that time reads it"
    )
    assert any("copies of key and keyring" in one["what"] for one in record["stays"])


def test_a_key_that_was_made_while_the_clock_was_ahead_is_destroyed_too(
    sealed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(sealed)
    with monkeypatch.context() as ahead:
        now = time.time()
        ahead.setattr(time, "time", lambda: now + 600)
        key = sealing.keys().key(chat_key(CHAT))
    planted(sealed)
    assert forget(sealed)["layers"]["encryption: keys of the chat"] == {"destroyed": 1}
    assert sealed.redis.hexists("hcli:mem:keyring", f"gone:{key.key_id}")


def test_the_key_is_gone_from_redis_and_the_chat_goes_on_with_another(sealed: World) -> None:
    planted(sealed)
    ids = sealing.keys().ids_of([chat_key(CHAT)])
    assert sealed.redis.hexists("hcli:mem:keyring", ids[0])
    forget(sealed)
    assert not sealed.redis.hexists("hcli:mem:keyring", ids[0])
    assert sealed.redis.hexists("hcli:mem:keyring", f"gone:{ids[0]}")
    begin(sealed)
    store = StoreLayer(sealed.settings())
    store.turns.store([StoredTurn(Turn("later", "user", CHAT, "a new thing about walnuts", time.time()))])
    store.close()
    assert stored(sealed)[CHAT] == ["a new thing about walnuts"]


STEPS = (
    "journal",
    "key-destroyed",
    "hidden",
    "announced",
    "ended",
    "store",
    "files",
    "night",
    "key-changed",
    "receipt",
)


def test_killed_anywhere_it_goes_on_and_what_was_said_since_stays(sealed: World) -> None:
    planted(sealed)
    arguments = ["--chat=" + CHAT, "--yes", "--later"]
    said = []
    for step in STEPS:
        died = hmem(sealed, "forget", *arguments, HMEM_CRASH_AT=f"forget:{step}")
        assert died.returncode == -9, (step, died.stderr)
        begin(sealed)
        store = StoreLayer(sealed.settings())
        store.turns.store([StoredTurn(Turn(f"since-{step}", "user", CHAT, f"said after {step}", time.time()))])
        store.close()
        said.append(f"said after {step}")
        found = stored(sealed)
        assert set(said) <= set(found[CHAT]), step
        assert found[OTHER] == EVERY[OTHER]
        assert step == "journal" or not set(CANARIES) & set(found[CHAT]), step
        words = b"".join(path.read_bytes() for path in (sealed.root / "state" / "forgetting").iterdir())
        assert b"zanzibar" not in words
        arguments = ["--resume"]
    hmem(sealed, "forget", "--resume")
    assert stored(sealed) == {CHAT: sorted(said), OTHER: EVERY[OTHER]}
    names = {key.name for key in sealing.keys().own.keys.values()}
    assert not any(name.startswith("forgetting:") for name in names)


def test_parts_of_a_chat_leave_its_key_and_the_receipt_says_so(sealed: World) -> None:
    planted(sealed)
    owner = key_of(sealed).read_bytes()
    record = forget(sealed, "--matching=zanzibar")
    assert stored(sealed) == {CHAT: [CANARIES[1]] * 4, OTHER: EVERY[OTHER]}
    assert key_of(sealed).read_bytes() == owner
    assert any("needs its key" in one["why"] for one in record["stays"])
