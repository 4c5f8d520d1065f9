"""Which damage to a closed keyword index is seen before it is released."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shared.errors import HmemError, LedgerMismatch, StorageError
from shared.search import lexical
from shared.system.files import sha256_file
from tests.support.night.builds import talk
from tests.support.night.indexes.damage import flip_page, sql

LEXICAL_DAMAGE: dict[str, tuple[Callable[[Path], object], type[HmemError], str]] = {
    "a chunk is gone": (sql("DELETE FROM chunks WHERE chunk_no = 3"), LedgerMismatch, "holds 39 chunks"),
    "a chunk that nobody made": (
        sql("INSERT INTO chunks SELECT 99, 'x', chat_id, exchange, turn_ids, role, speaker, text, 1, 1, 1, 1, NULL, NULL FROM chunks LIMIT 1"),
        LedgerMismatch,
        "holds 41 chunks",
    ),
    "a chunk of another chat": (sql("UPDATE chunks SET chat_id = '77' WHERE chunk_no = 3"), LedgerMismatch, "holds"),
    "another count of a word": (sql("UPDATE postings SET counts = x'0900' WHERE term = 'note'"), LedgerMismatch, "by keyword"),
    "a word is gone": (sql("DELETE FROM postings WHERE chat_no = 1 AND term = 'note'"), LedgerMismatch, "finds 19 by keyword"),
    "words of nobody": (
        sql("INSERT INTO postings SELECT 7, term, ordinals, counts FROM postings WHERE chat_no = 1"), LedgerMismatch, "finds 40 by keyword"),
    "two chats changed their words": (
        sql("UPDATE items SET chat_no = -chat_no", "UPDATE items SET chat_no = chat_no + 3"), LedgerMismatch, "by keyword"),
    "a flipped byte": (lambda p: flip_page(p, 2), StorageError, "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEXICAL_DAMAGE)
def test_damage_to_closed_keywords_is_seen(tmp_path: Path, name: str) -> None:
    damage, error, why = LEXICAL_DAMAGE[name]
    lexical.build(tmp_path, 1, [(chunk, chunk.text) for chunk in talk(20)])
    (part,) = tmp_path.iterdir()
    before = sha256_file(part)
    assert lexical.check(tmp_path, {"9912": 20, "-100123": 20}) == {"9912": 20, "-100123": 20}
    assert (sha256_file(part), list(tmp_path.iterdir())) == (before, [part]), "the proof leaves no trace"
    damage(part)
    with pytest.raises(error, match=why):
        lexical.check(tmp_path, {"9912": 20, "-100123": 20})
