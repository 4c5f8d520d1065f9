"""A key that was destroyed comes back from nowhere; one that was changed opens nothing later; no reader meets half a keyring."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisGone

from shared.errors import EncryptionKeyMissing, InvalidInput
from shared.system.keys import copies, sealing
from shared.system.keys.encryption_key import EncryptionKey
from shared.system.keys.exchange import Exchange
from shared.system.keys.keyring import DataKey, Keyring
from shared.system.keys.sealing import KeyDestroyed, chat_key, keyring_path
from shared.wire import keys
from tests.shared.system.keys.conftest import WORDS, begin, opened, sealed


def of_other_host(key_file: Path, name: str) -> Path:
    """The owner's key on another host, or of another user."""
    path = key_file.parent.with_name(name) / key_file.name
    path.parent.mkdir(mode=0o700)
    path.write_bytes(key_file.read_bytes())
    path.chmod(0o600)
    return path


def forget(key_file: Path, chat: str, url: str = "") -> str:
    """As `hmem forget --chat` treats keys; the id of the destroyed one."""
    day = begin(key_file, "day", url)
    (key_id,) = day.ids_of([chat_key(chat)])
    day.retire([key_id])
    day.destroy([key_id])
    copies.rotate(day)
    return key_id


def in_redis(redis: Redis, key_id: str) -> bool:
    return bool(redis.hexists(keys.KEYRING, key_id))


def test_who_receives_releases_keeps_no_key_and_brings_none_back(key_file: Path, redis: Redis, redis_url: str) -> None:
    receivers = of_other_host(key_file, "receiver")
    begin(key_file, url=redis_url)
    text = sealed("1")
    begin(receivers, "receiver", redis_url)
    assert opened(text) == WORDS
    assert [one.name for one in receivers.parent.iterdir()] == ["encrypt.key"]
    key_id = forget(key_file, "1", redis_url)
    begin(key_file, url=redis_url)
    other = sealed("2")
    begin(receivers, "receiver", redis_url)
    assert opened(other) == WORDS, "it has followed the owner's key"
    with pytest.raises(KeyDestroyed):
        opened(text)
    assert not in_redis(redis, key_id)
    assert receivers.read_bytes() == key_file.read_bytes()


def test_a_host_that_comes_back_puts_no_destroyed_key_into_redis(key_file: Path, redis: Redis, redis_url: str) -> None:
    nights = of_other_host(key_file, "night")
    begin(key_file, url=redis_url)
    sealed("1")
    begin(nights, "night", redis_url).sync()
    key_id = forget(key_file, "1", redis_url)
    begin(nights, "night", redis_url).sync()
    assert not in_redis(redis, key_id)
    assert begin(nights, "night", redis_url).owner.fingerprint == EncryptionKey.load(key_file).fingerprint


def test_what_was_destroyed_without_redis_leaves_it_later(
    key_file: Path, redis: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = begin(key_file, "night", redis_url)
    sealed("1")
    (key_id,) = night.ids_of([chat_key("1")])

    def gone(_: Exchange, __: Any) -> None:
        raise RedisGone

    with monkeypatch.context() as patched:
        patched.setattr(Exchange, "destroy", gone)
        with pytest.raises(RedisGone):
            night.destroy([key_id])
    assert in_redis(redis, key_id)
    begin(key_file, "night", redis_url).sync()
    assert not in_redis(redis, key_id)


def test_a_copy_revives_no_key_in_the_keyring_of_another_role(key_file: Path) -> None:
    begin(key_file, "night")
    sealed("9")  # so that it has a keyring
    day = begin(key_file)
    text = sealed("1")
    copy, _ = copies.copied(day)
    ids = day.ids_of([chat_key("1")])
    day.destroy(ids)
    copies.restore(key_file, copy, "copy")
    for role in sealing.ROLES:
        begin(key_file, role)
        with pytest.raises(KeyDestroyed):
            opened(text)
    of_night = of_other_host(key_file, "night")
    copies.restore(of_night, copy, "copy", copies.destroyed_beside(key_file))
    begin(of_night, "night")
    with pytest.raises(KeyDestroyed):
        opened(text)


def test_a_keyring_from_before_a_change_is_taken_where_all_its_keys_are(key_file: Path, tmp_path: Path) -> None:
    day = begin(key_file)
    text = sealed("1")
    before, _ = copies.keyring(day)
    copies.rotate(day)
    assert copies.restore_keyring(key_file, before, "The keyring").keys == 0
    copy, _ = copies.copied(begin(key_file))
    new_host = tmp_path / "new" / "encrypt.key"
    copies.restore(new_host, copy, "copy")
    assert copies.restore_keyring(new_host, before, "The keyring").keys == 0
    begin(new_host)
    assert opened(text) == WORDS
    alone = tmp_path / "alone" / "encrypt.key"
    alone.parent.mkdir()
    alone.write_bytes(key_file.read_bytes())
    alone.chmod(0o600)
    with pytest.raises(
        EncryptionKeyMissing, match=r"^The keyring was encrypted with the owner's key .* that was made later"
    ):
        copies.restore_keyring(alone, before, "The keyring")


def test_a_stolen_key_opens_no_keyring_that_lies_elsewhere_after_a_change(key_file: Path) -> None:
    stolen = of_other_host(key_file, "thief")
    begin(key_file)
    sealed("1")
    copies.rotate(sealing.keys())
    begin(key_file)
    sealed("new")
    mirrored, _ = copies.keyring(sealing.keys())
    with pytest.raises(EncryptionKeyMissing):
        copies.restore_keyring(stolen, mirrored, "keyring.json")


def test_a_copy_from_before_a_change_does_not_count_for_what_only_the_mirror_has(key_file: Path) -> None:
    begin(key_file)
    sealed("1")
    _, ids = copies.copied(sealing.keys())
    copies.record(key_file, Path("/safe"), ids, sealing.keys().owner)
    sealed("2")
    copies.record_mirrored(key_file, copies.keyring(sealing.keys())[1])
    assert copies.state(sealing.keys()).new_chats == 0
    copies.rotate(sealing.keys())
    assert copies.state(sealing.keys()).new_chats == 1


def test_a_change_that_cannot_reach_every_keyring_changes_nothing(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(key_file, "night")
    sealed("9")
    day, before, read = begin(key_file), key_file.read_bytes(), Keyring.refresh
    sealed("1")

    def unreadable(ring: Keyring) -> None:
        if ring.path.name.endswith("night.keys"):
            raise EncryptionKeyMissing("unreadable")
        read(ring)

    with monkeypatch.context() as patched:
        patched.setattr(Keyring, "refresh", unreadable)
        with pytest.raises(EncryptionKeyMissing):
            copies.rotate(day)
    assert key_file.read_bytes() == before
    assert begin(key_file, "night").owner.line.encode() == before


def test_nothing_of_an_earlier_key_is_left_in_the_file_that_it_had(key_file: Path) -> None:
    day = begin(key_file)
    sealed("1")
    with key_file.open("rb") as key, keyring_path(key_file, "day").open("rb") as ring:
        copies.rotate(day)
        assert set(key.read()) == set(ring.read()) == {0}


def test_a_kill_leaves_no_half_keyring_for_ever(key_file: Path) -> None:
    begin(key_file)
    sealed("1")
    child = os.fork()
    if child == 0:
        Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign]
        with suppress(BaseException):
            begin(key_file)
            sealed("2")
        os._exit(1)
    os.waitpid(child, 0)
    assert len(list(key_file.parent.glob(".*.tmp"))) == 1
    begin(key_file)
    sealed("3")
    assert not list(key_file.parent.glob(".*.tmp"))


def test_a_keyring_that_is_replaced_meanwhile_is_read_again(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(key_file)
    sealed("1")
    ring, read, met = (
        Keyring(EncryptionKey.load(key_file), keyring_path(key_file, "day")),
        Path.read_bytes,
        list[Path](),
    )

    def overwritten(file: Path) -> bytes:
        if file == ring.path and not met:
            met.append(file)
            return bytes(100)
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", overwritten)
    ring.refresh()
    assert len(ring.keys) == 1
    ring.add([DataKey.new("chat:2")])
    assert len(ring.keys) == 2


def test_any_other_file_is_no_keyring(key_file: Path) -> None:
    begin(key_file)
    sealed("1")
    for content in (b'{"a": 1}', b"[]", b"no JSON"):
        with pytest.raises(InvalidInput, match=r"is not a keyring, so nothing was changed .* Give the right file"):
            copies.restore_keyring(key_file, content, "/tmp/other.json")
