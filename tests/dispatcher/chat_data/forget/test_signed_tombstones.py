"""What erases comes from the owner alone: by his signature, by an import that he has agreed to, and by nothing that stands in Redis."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dispatcher.chat_data.forget.journal import FOLDER, Journal
from dispatcher.chat_data.forget.request import ForgetRequest, Scope
from nightly.cli.status import sentence
from shared.errors import SettingsError
from shared.system.byte_scan import Needles
from shared.system.files import make_dir, write_atomic
from shared.system.owner_key import TRUSTED, OwnerKey, Signing, is_signed, open_signing
from shared.turns.records import RecordRefused, Tombstone
from tests.support.day.forgetting_world import hmem
from tests.support.night.whole_archive import read_archive
from tests.support.world import World

LATER = 1_900_000_000.0
SECRET = "the locker opens with pelican"
ERASE = Tombstone("forged", "7", LATER, erase=True)


@pytest.fixture
def talked(light: World) -> World:
    """Two chats in the archive."""
    light.say("t1", SECRET, chat_id="7")
    light.say("t2", "the neighbours keep a tortoise", chat_id="8")
    light.night()
    return light


def held(world: World) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in (world.night_dir / "archive").glob("*.jsonl"))


def found(world: World) -> bool:
    return SECRET in world.command("hmem", "search", "7", "locker", check=False).stdout


def key(path: Path) -> OwnerKey:
    return OwnerKey.create(path)


def test_a_signature_covers_every_field(tmp_path: Path) -> None:
    owner, other = key(tmp_path / "a" / "owner.key"), key(tmp_path / "other.key")
    assert stat.S_IMODE((tmp_path / "a" / "owner.key").stat().st_mode) == 0o600
    signed = owner.sign(replace(ERASE, turn_ids=frozenset({"t1:user"}), said_at={"t1:user": 1.0}))
    assert is_signed(signed, owner.public)
    assert is_signed(Tombstone.parse(signed.to_json()), owner.public)
    assert OwnerKey.load(tmp_path / "a" / "owner.key").sign(replace(signed, signature=None)) == signed
    assert not is_signed(signed, other.public)
    changes: list[dict[str, Any]] = [
        {"tombstone_id": "x"}, {"chat_id": "8"}, {"created_at": 1.0}, {"before": 1.0}, {"turn_ids": None},
        {"erase": False}, {"said_at": {}}, {"signature": None}, {"signature": "0" * 128},
    ]  # fmt: skip
    for change in changes:
        assert not is_signed(replace(signed, **change), owner.public), change
    assert not is_signed(signed, "zz"), "a key that is none"
    with pytest.raises(RecordRefused, match="signature must be 128 hex digits"):
        Tombstone.parse(json.dumps({**json.loads(signed.to_json()), "signature": "x"}).encode())


@pytest.mark.slow
def test_a_forged_tombstone_is_refused_and_stops_nothing(talked: World) -> None:
    talked.push_tombstone(
        Tombstone("real", "8", LATER, turn_ids=frozenset({"nothing:user"}), erase=True)
    )  # makes the key
    foreign = key(talked.root / "foreign.key").sign(replace(ERASE, tombstone_id="foreign"))
    for forged in (ERASE, foreign):
        talked.redis.rpush("hcli:mem:tombstones", forged.to_json())
    talked.say("t3", "said meanwhile", chat_id="8")
    (night,) = talked.night()
    assert night["refused_tombstones"] == {"it would erase, but it is not signed with the owner's key": 2}
    assert "refused: 2 × a tombstone in Redis (it would erase" in sentence(night)
    assert (night["new"], night["deleted"]) == (1, 1)
    assert held(talked)
    assert found(talked)
    assert "forged" not in read_archive(talked.night_dir / "archive").tombstones


@pytest.mark.slow
def test_without_a_key_what_would_erase_only_hides_until_the_key_is_known(talked: World) -> None:
    owner = key(talked.root / "owner.key")
    talked.redis.rpush("hcli:mem:tombstones", owner.sign(ERASE).to_json())
    (night,) = talked.night()
    assert night["only_hiding_tombstones"] == 1
    assert "hidden, not erased: 1 ×" in sentence(night)
    assert held(talked)
    assert not found(talked)
    (night,) = talked.night(owner_public_key=owner.public)
    assert (night["only_hiding_tombstones"], night["erased"]) == (0, 1)
    assert not held(talked)
    (night,) = talked.night(owner_public_key=key(talked.root / "new.key").public)
    assert not night["refused_tombstones"], "what was obeyed once is not judged by a new key"


@pytest.mark.slow
def test_forget_makes_the_key_and_gives_the_night_its_public_half(talked: World) -> None:
    assert json.loads(hmem(talked, "forget", "--chat=7", "--json").stdout)["done"] is False
    assert not (talked.root / "owner.key").exists(), "a preview changes nothing"
    assert hmem(talked, "forget", "--chat=7", "--yes").returncode == 0
    assert not held(talked)
    public = OwnerKey.load(talked.root / "owner.key").public
    assert (talked.night_dir / TRUSTED).read_text() == f"{public}\n"
    assert json.loads(hmem(talked, "owner-key", "--json").stdout)["public"] == public
    assert f'OWNER_PUBLIC_KEY = "{public}"' in hmem(talked, "owner-key").stdout


@pytest.mark.slow
def test_forget_without_the_key_hides_and_waits_for_it(talked: World) -> None:
    owner = key(talked.root / "owner.key")
    (talked.night_dir / TRUSTED).write_text(owner.public)
    elsewhere = (talked.root / "owner.key").rename(talked.root / "elsewhere.key")
    (record,) = json.loads(hmem(talked, "forget", "--chat=7", "--yes", "--json").stdout)
    assert "there is no owner's key at" in record["pending"][0]
    talked.night()
    assert held(talked)
    assert not found(talked)
    elsewhere.rename(talked.root / "owner.key")
    unsigned = hmem(talked, "forget", "--resume")
    assert (unsigned.returncode, "It would forget: all of chat 7 so far." in unsigned.stderr) == (28, True)
    assert held(talked), "begun without the key, so the owner is asked"
    assert hmem(talked, "forget", "--resume", "--yes").returncode == 0
    assert not held(talked)


def test_a_forgetting_that_somebody_else_has_put_there_is_not_signed(talked: World) -> None:
    """The directory is the dispatcher's: whoever takes that over must not erase by the owner's own command."""
    forged = Journal(Scope(ForgetRequest("chat", "7"), [ERASE]), Needles())
    write_atomic(make_dir(talked.root / "state" / FOLDER) / f"{forged.forget_id}.json", forged.to_json(Signing(None)))
    done = hmem(talked, "forget", "--chat=8", "--yes")
    assert done.returncode == 0, done.stderr
    assert (
        f"{forged.forget_id} is not signed with the owner's key. It would forget: all of chat 7 so far." in done.stderr
    )
    assert "if you did not start it, remove its file" in done.stderr
    talked.night()
    assert held(talked)
    assert found(talked), "it does not even hide"
    other = OwnerKey.create(talked.root / "other.key")
    forged_file = unfinished_file(talked, forged.forget_id)
    forged_file.write_bytes(forged.to_json(Signing(other)))
    assert hmem(talked, "forget", "--resume").returncode == 28
    assert held(talked)


def unfinished_file(world: World, name: str) -> Path:
    return world.root / "state" / FOLDER / f"{name}.json"


def test_nothing_hidden_is_nothing_to_erase(talked: World) -> None:
    """An empty selection must never become a tombstone without ids, which is one for the whole chat."""
    done = hmem(talked, "forget", "--hidden", "--chat=7", "--yes")
    assert (done.returncode, "Chat 7 has no turns that are only hidden" in done.stderr) == (24, True)
    assert held(talked)
    with pytest.raises(ValueError, match="at least one"):
        Tombstone("x", "7", 1.0, turn_ids=frozenset())


def test_each_way_in_which_a_key_is_wrong_names_the_way_on(talked: World) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path, trusted = talked.root / "owner.key", talked.night_dir / TRUSTED

    def refused() -> str:
        try:
            signing = open_signing(talked.settings())
        except SettingsError as error:
            return str(error)
        assert signing.key is None
        return f"{signing.why_not}. {signing.way_on}"

    path.mkdir(mode=0o755)
    assert "is not a file. Move it away" in refused()
    path.rmdir()
    other = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(other)
    path.chmod(0o644)
    assert "chmod 600" in refused()
    path.chmod(0o600)
    trusted.write_text("ab" * 32)
    recipe = "move the key file away, remove owner.pub in HMEM_NIGHT_DIR and OWNER_PUBLIC_KEY from the settings, then run hmem owner-key"
    said = refused()
    assert "is no Ed25519 key" in said
    assert recipe in said
    path.write_text("no key")
    assert recipe in refused()
    path.unlink()
    trusted.write_text("no key")
    assert "is not a public key" in refused()
    trusted.write_text("ab" * 32)
    said = hmem(talked, "owner-key").stderr
    assert "there is no owner's key at" in said
    assert recipe in said
    key(path)
    said = refused()
    assert "uses another key" in said
    assert recipe in said
    path.rename(talked.root / "away.key")
    trusted.unlink()
    assert hmem(talked, "owner-key").returncode == 0, "the recipe works"


@pytest.mark.slow
def test_what_a_wish_in_a_chat_has_hidden_is_erased_by_the_owner(talked: World) -> None:
    hmem(talked, "memory", "add", "7", "the locker opens with pelican")
    assert hmem(talked, "memory", "forget", "7", "1").returncode == 0
    talked.night()
    assert held(talked)
    assert not found(talked)
    assert "Turns of chat 7 are only hidden" in hmem(talked, "forget", "--list").stdout
    done = hmem(talked, "forget", "--hidden", "--chat=7", "--yes")
    assert done.returncode == 0, done.stdout
    assert not held(talked)
    assert "only hidden" not in hmem(talked, "forget", "--list").stdout
    assert hmem(talked, "forget", "--hidden").returncode == 24


# ---- imports


def test_no_import_brings_a_tombstone(talked: World) -> None:
    owner = open_signing(talked.settings()).key
    assert owner
    path = talked.root / "import.jsonl"
    path.write_text(
        json.dumps({"kind": "tombstone", "tombstone": json.loads(owner.sign(ERASE).to_json())})
        + '\n{"task_id":"i1","role":"user","chat_id":"8","content":"an imported turn","timestamp":1.0}\n'
    )
    done = talked.command("hmem-night", "backfill", "jsonl", str(path))
    assert "left out: 1 × tombstone, no turn" in done.stdout
    assert "1 turn found: 1 new" in done.stdout
    assert found(talked)
