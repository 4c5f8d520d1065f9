"""What `hmem doctor` finds of encryption at rest, and `hmem key` as the owner uses it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.turns import Turns
from shared.system.keys import sealing
from shared.system.keys.sealing import Sealing
from tests.support.day.health import ask
from tests.support.day.store_rows import said
from tests.support.world import World


@pytest.fixture
def key_file(host: World) -> Iterator[Path]:
    """Made by the owner; the settings have it."""
    path = host.root / "keys" / "encrypt.key"
    done = host.command("hmem", "key", "new", str(path))
    assert f'ENCRYPT_KEY_FILE = "{path}"' in done.stdout
    assert path.read_text().strip().rpartition(":")[2] not in done.stdout + done.stderr
    host.environment["ENCRYPT_KEY_FILE"] = str(path)
    yield path
    sealing.use(None)


def say(host: World, chat: str, key_file: Path | None) -> None:
    sealing.use(None if key_file is None else lambda: Sealing(key_file, "day"))
    with closing(Database("", host.root / "state")) as database:
        Turns(database).store([said("a", "the blue bicycle", chat)])


def test_off_is_said(host: World) -> None:
    found = ask(host)[1]["encryption"]
    assert (found.state, "is off" in found.sentence) == ("ok", True)


def test_a_copy_is_asked_for_until_there_is_one_of_every_key(host: World, key_file: Path) -> None:
    for chat in "123":
        say(host, chat, key_file)
    found = ask(host)[1]["encryption"]
    assert found.state == "warning"
    assert found.sentence.startswith(
        "3 chats have keys that are in no copy: if this host is lost, they cannot be read from mirror or backup."
    )
    assert found.fix.startswith("Run hmem key copy")
    copy = host.root / "hmem.copy"
    host.command("hmem", "key", "copy", str(copy))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    found = ask(host)[1]["encryption"]
    assert (found.state, "all in your copy" in found.sentence) == ("ok", True), found
    assert "Claude CLI's transcripts" in found.sentence
    say(host, "4", key_file)
    assert json.loads(host.command("hmem", "key", "status", "--json").stdout)["new_chats"] == 1
    assert ask(host)[1]["encryption"].sentence.startswith("1 chat has a key that is in no copy")


def test_a_lost_key_is_a_problem_and_comes_back_from_the_copy(host: World, key_file: Path) -> None:
    say(host, "1", key_file)
    copy = host.root / "hmem.copy"
    host.command("hmem", "key", "copy", str(copy))
    for path in key_file.parent.iterdir():
        path.unlink()
    code, findings = ask(host)
    assert (code, findings["encryption"].code) == (53, 53)
    assert "cannot be read" in findings["encryption"].sentence
    host.command("hmem", "key", "restore", str(copy))
    assert ask(host)[1]["encryption"].state == "warning", "the record of the copy was lost, too"
    assert "1 keys of 1 chats" not in host.command("hmem", "key", "status").stdout
    host.command("hmem", "key", "rotate")
    assert ask(host)[1]["store"].state == "ok"


def test_encryption_that_was_switched_off_is_a_problem(host: World, key_file: Path) -> None:
    say(host, "1", key_file)
    code, findings = ask(host, ENCRYPT_KEY_FILE="")
    assert (code, findings["encryption"].code) == (53, 53)
    assert "ENCRYPT_KEY_FILE is not set" in findings["encryption"].sentence


def test_plain_rows_of_a_program_without_the_key_are_found_and_sealed(host: World, key_file: Path) -> None:
    sealing.use(None)
    with closing(Database("", host.root / "state")) as still_running:
        Turns(still_running).store([said("a", "the blue bicycle", "1")])
        say(host, "2", key_file)
        sealing.use(None)
        Turns(still_running).store([said("b", "the blue bicycle", "1")])
    host.command("hmem", "key", "copy", str(host.root / "hmem.copy"))
    found = ask(host)[1]["encryption"]
    assert "1 of the newest rows of the day store are plain" in found.sentence
    assert "1 rows" in host.command("hmem", "key", "seal").stdout
    assert "are plain" not in ask(host)[1]["encryption"].sentence
    assert b"blue bicycle" not in (host.root / "state" / "day-store.sqlite").read_bytes()


def test_looking_encrypts_nothing_and_says_what_will(host: World, key_file: Path) -> None:
    say(host, "1", None)
    store = host.root / "state" / "day-store.sqlite"
    before = store.read_bytes()
    found = ask(host)[1]["encryption"]
    assert found.state == "warning"
    assert "The day store is not encrypted yet: that happens when the dispatcher starts" in found.sentence
    assert "the blue bicycle" in host.command("hmem", "search", "1", "bicycle").stdout
    assert store.read_bytes() == before
    assert "1 rows" in host.command("hmem", "key", "seal").stdout
    assert b"blue bicycle" not in store.read_bytes()
    assert "not encrypted yet" not in ask(host)[1]["encryption"].sentence


def test_a_key_among_the_data_or_open_to_others_is_warned_of(host: World, key_file: Path) -> None:
    inside = host.root / "state" / "keys" / "encrypt.key"
    host.command("hmem", "key", "new", str(inside))
    assert "is inside" in ask(host, ENCRYPT_KEY_FILE=str(inside))[1]["encryption"].sentence
    key_file.chmod(0o640)
    assert "Others than its owner" in ask(host)[1]["encryption"].sentence
    key_file.chmod(0o644)
    assert "Every user of this host" in ask(host)[1]["encryption"].sentence
    assert os.access(key_file, os.R_OK)
