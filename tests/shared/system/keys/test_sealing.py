"""Encryption at rest: what is sealed, with which key, and what is left without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import EncryptionKeyMissing
from shared.system.keys import sealing
from shared.system.keys.encryption_key import EncryptionKey
from shared.system.keys.keyring import DataKey, Keyring
from shared.system.keys.sealing import KeyDestroyed, Role, Sealing, chat_key
from tests.shared.system.keys.conftest import WORDS


def begin(key_file: Path, role: Role = "day") -> None:
    """A new process, which has read no key yet."""
    sealing.use(lambda: Sealing(key_file, role))


def test_without_a_key_nothing_changes() -> None:
    sealing.use(None)
    assert sealing.seal(chat_key("1"), WORDS, "turn") == WORDS
    assert sealing.unseal(WORDS, "turn") == WORDS
    assert sealing.keyed(chat_key("1"), "bicycle") == "bicycle"


def test_what_is_sealed_comes_back_in_another_process_and_holds_no_word(key_file: Path) -> None:
    begin(key_file)
    sealed = sealing.seal(chat_key("1"), WORDS, "turn")
    text = sealing.seal_text(chat_key("1"), WORDS.decode(), "turn")
    assert b"bicycle" not in sealed
    assert "bicycle" not in text
    begin(key_file, "night")
    assert sealing.unseal(sealed, "turn") == WORDS
    assert sealing.unseal_text(text, "turn") == WORDS.decode()


def test_sealing_is_deterministic_but_not_across_chats_and_places(key_file: Path) -> None:
    begin(key_file)
    places = {
        sealing.seal(chat_key(chat), WORDS, about) for chat in "12" for about in ("turn", "summary") for _ in "ab"
    }
    assert len(places) == 4


def test_sealed_text_cannot_be_moved_or_changed(key_file: Path) -> None:
    begin(key_file)
    sealed = sealing.seal(chat_key("1"), WORDS, "turn 1")
    with pytest.raises(ValueError, match="another place"):
        sealing.unseal(sealed, "turn 2")
    with pytest.raises(ValueError, match="damaged"):
        sealing.unseal(sealed[:-1] + bytes([sealed[-1] ^ 1]), "turn 1")


def test_a_destroyed_key_opens_no_copy_and_the_next_text_has_a_new_one(key_file: Path) -> None:
    begin(key_file)
    sealed, other = sealing.seal(chat_key("1"), WORDS, "turn"), sealing.seal(chat_key("2"), WORDS, "turn")
    sealing.keys().destroy(sealing.keys().ids_of([chat_key("1")]))
    for role in ("day", "night"):
        with pytest.raises(KeyDestroyed):
            sealing.unseal(sealed, "turn")
        assert sealing.unseal(other, "turn") == WORDS
        begin(key_file, role)
    assert sealing.unseal(sealing.seal(chat_key("1"), WORDS, "turn"), "turn") == WORDS


def test_a_wrong_or_lost_key_is_said_in_a_sentence(key_file: Path) -> None:
    begin(key_file)
    sealed = sealing.seal(chat_key("1"), WORDS, "turn")
    right = key_file.read_bytes()
    EncryptionKey.new().write(key_file)
    begin(key_file)
    with pytest.raises(EncryptionKeyMissing, match="Put that key back"):
        sealing.unseal(sealed, "turn")
    key_file.unlink()
    begin(key_file)
    with pytest.raises(EncryptionKeyMissing, match="cannot be read"):
        sealing.unseal(sealed, "turn")
    key_file.write_bytes(right)
    key_file.chmod(0o644)
    begin(key_file)
    with pytest.raises(EncryptionKeyMissing, match="Every user of this host"):
        sealing.unseal(sealed, "turn")
    key_file.chmod(0o600)
    begin(key_file)
    assert sealing.unseal(sealed, "turn") == WORDS
    sealing.use(None)
    with pytest.raises(EncryptionKeyMissing, match="ENCRYPT_KEY_FILE is not set"):
        sealing.unseal(sealed, "turn")


def test_a_lost_keyring_is_said_in_a_sentence(key_file: Path) -> None:
    begin(key_file)
    sealed = sealing.seal(chat_key("1"), WORDS, "turn")
    sealing.keys().own.path.unlink()
    begin(key_file)
    with pytest.raises(EncryptionKeyMissing, match="lacks the key"):
        sealing.unseal(sealed, "turn")


def test_the_keyring_names_no_chat_and_no_secret(key_file: Path) -> None:
    begin(key_file)
    sealing.seal(chat_key("chat-4711"), WORDS, "turn")
    content = sealing.keys().own.path.read_bytes()
    assert b"4711" not in content
    assert sealing.keys().key(chat_key("chat-4711")).secret.hex().encode() not in content


def test_another_owners_key_is_followed_but_not_backwards(key_file: Path) -> None:
    begin(key_file)
    sealed = sealing.seal(chat_key("1"), WORDS, "turn")
    ring = sealing.keys().own
    old_ring, old, new = ring.path.read_bytes(), ring.owner, EncryptionKey.new()
    ring.change_owner(new)
    begin(key_file)  # the file has the earlier key, and the keyring leads to the new one
    assert sealing.unseal(sealed, "turn") == WORDS
    new.write(key_file)
    begin(key_file)
    assert sealing.unseal(sealed, "turn") == WORDS
    ring.path.write_bytes(old_ring)  # a stale copy of the keyring, and the key of today
    begin(key_file)
    with pytest.raises(EncryptionKeyMissing, match=old.fingerprint):
        sealing.unseal(sealed, "turn")


def test_two_processes_add_keys_to_one_file(key_file: Path) -> None:
    owner = EncryptionKey.load(key_file)
    one, two = (Keyring(owner, key_file.with_name("ring")) for _ in range(2))
    one.add([DataKey.new("a")])
    two.add([DataKey.new("b")])
    one.refresh()
    assert {key.name for key in one.keys.values()} == {"a", "b"}


@given(st.binary(max_size=300), st.text(max_size=20))
def test_every_text_comes_back(data: bytes, about: str) -> None:
    key = DataKey.new("chat:1")
    encrypted = sealing.cipher(key.secret).encrypt(data, [about.encode("utf-8", "surrogatepass")])
    assert sealing.cipher(key.secret).decrypt(encrypted, [about.encode("utf-8", "surrogatepass")]) == data
