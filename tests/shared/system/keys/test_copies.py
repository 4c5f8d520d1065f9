"""The owner's copy of key and keyring, the way back from it, and the change of the owner's key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from redis import Redis

from shared.errors import EncryptionKeyMissing, InvalidInput
from shared.system.keys import copies, sealing
from shared.system.keys.encryption_key import EncryptionKey
from shared.system.keys.sealing import chat_key, keyring_path
from tests.shared.system.keys.conftest import WORDS, begin, opened, sealed

#: Those that have a keyring of their own here.
ROLES: tuple[sealing.Role, ...] = ("day", "night")


def opens(text: bytes) -> bool:
    return opened(text) == WORDS


def lose(key_file: Path) -> None:
    for path in key_file.parent.iterdir():
        path.unlink()


def copied(key_file: Path) -> bytes:
    content, ids = copies.copied(sealing.keys())
    copies.record(key_file, Path("/safe"), ids, sealing.keys().owner)
    return content


def test_a_key_is_made_for_its_owner_alone_and_replaces_none(key_file: Path) -> None:
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700
    before = key_file.read_bytes()
    with pytest.raises(InvalidInput, match="already"):
        copies.make_key(key_file)
    with pytest.raises(InvalidInput, match="directory of its own"):
        copies.make_key(key_file.with_name("another.key"))
    assert key_file.read_bytes() == before


def test_a_copy_brings_all_back(key_file: Path) -> None:
    begin(key_file, "night")
    of_night = sealed("1")
    begin(key_file)
    of_day = sealed("2")
    copy = copied(key_file)
    lose(key_file)
    done = copies.restore(key_file, copy, "copy")
    assert (done.keys, done.key_written) == (2, True)
    begin(key_file)
    assert opens(of_night)
    assert opens(of_day)


def test_status_counts_what_is_in_no_copy(key_file: Path) -> None:
    begin(key_file)
    sealed("1")
    assert (copies.state(sealing.keys()).new_chats, copies.state(sealing.keys()).copied_at) == (1, None)
    copied(key_file)
    assert copies.state(sealing.keys()).new_chats == 0
    sealed("2")
    sealing.seal("cache", WORDS, "x", local=True)
    found = copies.state(sealing.keys())
    assert (found.keys, found.chats, found.new_keys, found.new_chats, found.copied_to) == (2, 2, 1, 1, "/safe")


def test_an_older_copy_takes_nothing_away(key_file: Path) -> None:
    begin(key_file)
    first = sealed("1")
    copy = copied(key_file)
    second = sealed("2")
    keyring_path(key_file, "day").chmod(0o600)
    done = copies.restore(key_file, copy, "copy")
    assert (done.keys, done.key_written) == (0, False)
    begin(key_file)
    assert opens(first)
    assert opens(second)


def test_a_copy_does_not_bring_back_what_was_destroyed(key_file: Path) -> None:
    keys = begin(key_file)
    first = sealed("1")
    copy = copied(key_file)
    keys.destroy(keys.ids_of([chat_key("1")]))
    copies.restore(key_file, copy, "copy")
    begin(key_file)
    with pytest.raises(sealing.KeyDestroyed):
        opens(first)


def test_a_keyring_of_a_lost_key_is_replaced_only_if_the_copy_has_all_of_it(key_file: Path) -> None:
    begin(key_file)
    first = sealed("1")
    copy = copied(key_file)
    copies.rotate(sealing.keys())
    EncryptionKey.new().write(key_file)  # the owner's key of today is lost
    with pytest.raises(EncryptionKeyMissing):
        begin(key_file)
    copies.restore(key_file, copy, "copy")  # the earlier key leads to it
    begin(key_file)
    assert opens(first)
    lose(key_file)
    copies.make_key(key_file)  # another key, and chats of its own
    begin(key_file)
    sealed("2")
    ring = keyring_path(key_file, "day")
    before = ring.read_bytes()
    key_file.unlink()
    with pytest.raises(EncryptionKeyMissing, match="1 keys that the copy lacks"):
        copies.restore(key_file, copy, "copy")
    assert ring.read_bytes() == before
    assert not key_file.exists()


def test_a_damaged_keyring_is_set_aside(key_file: Path) -> None:
    begin(key_file)
    first = sealed("1")
    copy = copied(key_file)
    ring = keyring_path(key_file, "day")
    ring.write_bytes(ring.read_bytes()[:-40])
    copies.restore(key_file, copy, "copy")
    begin(key_file)
    assert opens(first)
    assert ring.with_name(f"{ring.name}.damaged").exists()


def test_what_is_no_copy_is_refused(key_file: Path) -> None:
    before = key_file.read_bytes()
    for content in (b"", b"[]", b"{}", b'{"copy": 9, "key": "x"}', key_file.read_bytes()):
        with pytest.raises(InvalidInput, match="not a copy"):
            copies.restore(key_file, content, "copy")
    assert key_file.read_bytes() == before


def test_a_changed_key_opens_both_roles_and_no_earlier_keyring(key_file: Path) -> None:
    begin(key_file, "night")
    of_night = sealed("1")
    begin(key_file)
    of_day = sealed("2")
    stale = {role: keyring_path(key_file, role).read_bytes() for role in ROLES}
    old = key_file.read_bytes()
    copies.rotate(sealing.keys())
    assert key_file.read_bytes() != old
    for role in ROLES:
        begin(key_file, role)
        assert opens(of_night)
        assert opens(of_day)
    for role, content in stale.items():
        keyring_path(key_file, role).write_bytes(content)
        with pytest.raises(EncryptionKeyMissing, match="Put that key back"):
            begin(key_file, role)


def test_the_other_host_follows_through_redis(key_file: Path, tmp_path: Path, redis: Redis, redis_url: str) -> None:
    there = tmp_path / "night host" / "encrypt.key"
    there.parent.mkdir()
    EncryptionKey.load(key_file).write(there)
    begin(there, "night", redis_url)
    of_night = sealed("1")
    begin(key_file, "day", redis_url)
    of_day = sealed("2")
    copies.rotate(sealing.keys())
    night = begin(there, "night", redis_url)
    night.sync()
    assert there.read_bytes() == key_file.read_bytes()
    assert opens(of_day)
    third = sealed("3")
    begin(key_file, "day", redis_url).sync()
    assert opens(of_night)
    assert opens(third)
