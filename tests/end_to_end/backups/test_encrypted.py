"""A backup of an installation that encrypts: nothing but the owner's key is needed to bring it back, and without it nothing can be read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.system.keys import sealing
from tests.end_to_end.backups.hosts import ARCHIVED, BackedUp, backed_up, empty_host, lived_in
from tests.support.night.archives import texts
from tests.support.world import World

WORDS = (b"boiler", b"Marchetti", b"Pushok")


@pytest.fixture(params=["", "postgresql"])
def kept(light: World, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BackedUp]:
    """With the day store in a file, or in a server."""
    if request.param:
        light.environment["DAY_STORE_URL"] = request.getfixturevalue("server").database()
    key = tmp_path / "keys" / "encrypt.key"
    light.command("hmem", "key", "new", str(key))
    light.environment["ENCRYPT_KEY_FILE"] = os.environ["ENCRYPT_KEY_FILE"] = str(key)
    sealing.configure(light.settings(), "night")
    lived_in(light)
    made = backed_up(light, tmp_path)
    made.backup("--init")
    yield made
    os.environ.pop("ENCRYPT_KEY_FILE")
    sealing.use(None)


def test_only_the_owners_key_is_needed_on_an_empty_host(kept: BackedUp, tmp_path: Path) -> None:
    wanted = texts(kept.world)
    key = Path(kept.world.environment["ENCRYPT_KEY_FILE"])
    with empty_host(kept.world, tmp_path / "other") as other:
        del other.environment["ENCRYPT_KEY_FILE"]
        other.environment.pop("DAY_STORE_URL", None)
        refused = kept.restore(other, check=False)
        assert refused.returncode != 0
        assert "Put your copy of it back" in refused.stderr
        copy = tmp_path / "other-keys" / key.name
        copy.parent.mkdir(mode=0o700)
        shutil.copy(key, copy)
        other.environment["ENCRYPT_KEY_FILE"] = os.environ["ENCRYPT_KEY_FILE"] = str(copy)
        kept.restore(other)
        sealing.configure(other.settings(), "night")
        assert texts(other) == wanted
        assert "Pushok" in other.command("hmem", "memory", "list", "9912").stdout
        other.night()
        assert len(texts(other)) == 3
        assert any(ARCHIVED in text for text in texts(other).values())


def test_what_was_restored_by_hand_tells_nothing_of_what_was_archived(kept: BackedUp, tmp_path: Path) -> None:
    tree = kept.fetched(tmp_path / "tree")
    files = [path for path in tree.rglob("*") if path.is_file() and path.name != "redis.jsonl"]
    assert any(path.name == "keyring.json" for path in files)
    assert [str(path) for path in files if any(word in path.read_bytes() for word in WORDS)] == []


def test_its_trial_asks_the_gates_questions(kept: BackedUp) -> None:
    found = json.loads(kept.backup("--verify", "--json").stdout)
    assert found["faults"] == []
    assert found["checked"]["archive"]["turns"] == 2
