"""The owner's key in a directory of its own, and processes that use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.system.keys import copies, sealing
from shared.system.keys.exchange import Exchange
from shared.system.keys.sealing import Role, Sealing, chat_key

WORDS = b"the blue bicycle is in the cellar"


@pytest.fixture
def key_file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "keys" / "encrypt.key"
    copies.make_key(path)
    yield path
    sealing.use(None)


def begin(key_file: Path, role: Role = "day", url: str = "") -> Sealing:
    """A new process."""
    sealing.use(lambda: Sealing(key_file, role, Exchange(url) if url else None))
    return sealing.keys()


def sealed(chat: str) -> bytes:
    return sealing.seal(chat_key(chat), WORDS, "turn")


def opened(text: bytes) -> bytes:
    return sealing.unseal(text, "turn")
