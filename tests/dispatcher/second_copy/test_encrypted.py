"""The second copy of an installation that encrypts."""

from __future__ import annotations

from pathlib import Path

from shared.system.keys import sealing
from tests.dispatcher.second_copy.conftest import LossyHost

WORDS = (b"bicycle", b"cellar")


def words_in(folder: Path) -> list[str]:
    return [
        str(path) for path in sorted(folder.rglob("*")) if path.is_file() and any(w in path.read_bytes() for w in WORDS)
    ]


def test_the_journal_has_no_word_and_brings_all_of_it_back(host: LossyHost) -> None:
    key = host.world.root / "keys" / "encrypt.key"
    host.world.command("hmem", "key", "new", str(key))
    host.world.environment["ENCRYPT_KEY_FILE"] = str(key)
    host.world.start_dispatcher()
    host.world.enqueue("t1", "the bicycle is in the cellar")
    host.answered("t1")
    host.world.command("hmem", "memory", "add", "9912", "the bicycle is blue")
    host.followed()
    before = host.turns()
    assert any(b"bicycle" in value for value in before.values())
    assert words_in(host.disk) == []
    host.kill_dispatchers()
    assert words_in(host.state_dir) == []
    host.lose_redis()
    host.lose_state()
    for left in key.parent.glob(f"{key.name}.*"):  # the owner has a copy of the key alone
        left.unlink()
    host.world.command("hmem", "restore", "--day")
    assert host.turns() == before
    assert "bicycle is blue" in host.world.command("hmem", "memory", "list", "9912").stdout
    assert words_in(host.state_dir) == []


def test_todays_key_opens_the_keyring_after_a_change_although_no_dispatcher_runs(host: LossyHost) -> None:
    key = host.world.root / "keys" / "encrypt.key"
    host.world.command("hmem", "key", "new", str(key))
    host.world.environment["ENCRYPT_KEY_FILE"] = str(key)
    host.world.start_dispatcher()
    host.world.enqueue("t1", "the bicycle is in the cellar")
    host.answered("t1")
    host.followed()
    host.kill_dispatchers()
    before = host.turns()
    host.world.command("hmem", "key", "rotate")
    host.lose_redis()
    host.lose_state()
    for left in key.parent.glob(f"{key.name}.*"):
        left.unlink()
    host.world.command("hmem", "restore", "--day")
    assert host.turns() == before


def test_lines_from_before_encryption_are_sealed_when_the_journal_is_rewritten(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t1", "the bicycle is in the cellar")
    host.answered("t1")
    host.kill_dispatchers()
    assert words_in(host.disk)
    key = host.world.root / "keys" / "encrypt.key"
    host.world.command("hmem", "key", "new", str(key))
    host.world.environment["ENCRYPT_KEY_FILE"] = str(key)
    from dispatcher.second_copy.day_journal import DayJournal

    sealing.configure(host.world.settings(), "day")
    try:
        DayJournal(host.disk).compact()
        assert [path for path in words_in(host.disk) if path.endswith(".jsonl")] == []
        assert any(b"bicycle" in one.value for one in host.journal.turns.values())
    finally:
        sealing.use(None)
