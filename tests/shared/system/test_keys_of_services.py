"""Encryption where dispatcher and night are users of their own: `sudo hmem key new` makes a key for each, and the commands of root work with both."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.users import DAY, NIGHT, Installation
from tests.support.world import BINARIES

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starting processes as other users needs root")
HMEM, SECRET = str(BINARIES / "hmem"), "quagga-lantern"


@pytest.fixture
def sealed(here: Installation) -> Installation:
    """As the owner switches encryption on."""
    done = here.as_root(HMEM, "key", "new")
    settings = next(line for line in done.stdout.splitlines() if "1. set" in line)
    lines = settings.removeprefix("  1. set ").removesuffix(" in hmem.toml").split(" and ")
    assert [line.split(" = ")[0] for line in lines] == ["ENCRYPT_KEY_FILE", "NIGHT_ENCRYPT_KEY_FILE"]
    assert "2. run hmem init" in done.stdout
    with (here.root / "hmem.toml").open("a") as file:
        file.write("\n" + "\n".join(lines) + "\n")
    here.as_root(HMEM, "owner-key")
    return here


def key_of(world: Installation, name: str) -> Path:
    return world.root / name / "encrypt.key"


def with_words(world: Installation) -> list[Path]:
    places = [world.root / name for name in ("state", "night", "memory")]
    return [
        one for place in places for one in place.rglob("*") if one.is_file() and SECRET.encode() in one.read_bytes()
    ]


def test_each_service_has_its_key_and_root_leaves_nothing_of_its_own(sealed: Installation) -> None:
    owners = {name: key_of(sealed, name).stat().st_uid for name in ("hmem-keys", "hmem-keys-night")}
    assert owners == {"hmem-keys": DAY, "hmem-keys-night": NIGHT}
    assert key_of(sealed, "hmem-keys").read_bytes() == key_of(sealed, "hmem-keys-night").read_bytes()
    sealed.say("t1", f"The word for the boiler is {SECRET}.")
    with sealed.dispatcher():
        sealed.night_by_root()
        assert SECRET in sealed.as_root(HMEM, "search", "9912", "word for the boiler").stdout
        sealed.as_root(HMEM, "key", "copy", str(sealed.root / "roots-home" / "hmem.copy"))
        found = json.loads(sealed.as_root(HMEM, "doctor", "--json", check=False).stdout)["findings"]
        (encryption,) = [one for one in found if one["name"] == "encryption"]
        assert (encryption["state"], encryption["sentence"][:26]) == ("ok", "Encryption at rest is on: "), encryption
    assert with_words(sealed) == []
    for folder in ("hmem-keys", "hmem-keys-night"):
        place = sealed.root / folder
        assert {one.stat().st_uid for one in [place, *place.iterdir()]} == {owners[folder]}
    assert sealed.foreign_files() == []


def test_root_forgets_a_chat_and_its_key_is_gone_from_both(sealed: Installation) -> None:
    sealed.say("t1", f"The word for the boiler is {SECRET}.")
    sealed.say("t2", "The heron came back.", chat_id="77")
    before = key_of(sealed, "hmem-keys").read_bytes()
    with sealed.dispatcher():
        sealed.night_by_root()
        done = sealed.as_root(HMEM, "forget", "--chat=9912", "--yes")
        assert "complete." in done.stdout
        assert SECRET not in sealed.as_root(HMEM, "search", "9912", "word for the boiler").stdout
        assert "heron" in sealed.as_root(HMEM, "search", "77", "heron").stdout
        sealed.say("t3", "The heron has a nest.", chat_id="77")
        sealed.night_by_root()
    assert key_of(sealed, "hmem-keys").read_bytes() == key_of(sealed, "hmem-keys-night").read_bytes() != before
    assert sealed.foreign_files() == []


def test_a_copy_comes_back_for_both(sealed: Installation) -> None:
    sealed.say("t1", f"The word for the boiler is {SECRET}.")
    sealed.night_by_root()
    copy = sealed.root / "roots-home" / "hmem.copy"
    sealed.as_root(HMEM, "key", "copy", str(copy))
    for folder in ("hmem-keys", "hmem-keys-night"):
        for one in (sealed.root / folder).iterdir():
            one.unlink()
        (sealed.root / folder).rmdir()
    sealed.redis.delete("hcli:mem:keyring")
    sealed.as_root(HMEM, "key", "restore", str(copy))
    assert SECRET in sealed.as_root(HMEM, "search", "9912", "word for the boiler").stdout
    sealed.say("t2", "The heron came back.", chat_id="9912")
    sealed.night_by_root()
    assert with_words(sealed) == []
