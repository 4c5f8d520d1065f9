"""`chats.sqlite`: a row a chat, and what two releases have not in common."""

from __future__ import annotations

from pathlib import Path

from shared.release.chats import COUNTED, ChatRow, ChatTable, changed_chats, write_chats
from shared.release.manifest import CHATS


def row(chat: str, turns: int, said: str = "", forgotten: int = 0) -> ChatRow:
    same = ("turns", "chunks", "with_chunks", "keywords", "vectors")
    counts = dict.fromkeys(COUNTED, 0) | dict.fromkeys(same, turns)
    return ChatRow(
        chat,
        f"{chat}-{turns}",
        counts | {"forgotten": forgotten, "archived": turns + forgotten},
        said or None,
        b"\0" * 4,
    )


def release(path: Path, *rows: ChatRow) -> Path:
    path.mkdir()
    write_chats(path / CHATS, rows)
    return path


def test_a_chat_has_the_row_that_was_written(tmp_path: Path) -> None:
    a, b, gone = row("a", 3, "three"), row("b", 2), ChatRow("c", "only hidden", dict.fromkeys(COUNTED, 0))
    with ChatTable.of(release(tmp_path / "1", b, gone, a)) as table:
        assert (table.row("a"), table.row("b"), table.row("404")) == (a, b, None)
        assert [one.chat_id for one in table] == ["a", "b"]
        assert [one.made_from for one in table.rows()] == ["a-3", "b-2", "only hidden"]
        assert list(table.summaries()) == [("a", "three")]
        assert (table.largest(), table.ids()) == ("a", ["a", "b"])


def test_a_release_without_the_file_has_no_chat(tmp_path: Path) -> None:
    with ChatTable.of(tmp_path) as table:
        assert (list(table.rows()), table.row("a"), table.largest()) == ([], None, None)


def test_what_two_releases_have_not_in_common(tmp_path: Path) -> None:
    old = release(tmp_path / "1", row("a", 1), row("b", 2), row("d", 5))
    new = release(tmp_path / "2", row("a", 1), row("b", 1, forgotten=1), row("c", 1))
    found = {chat: (now["turns"], before["turns"]) for chat, now, before in changed_chats(new, old)}
    assert found == {"b": (1, 2), "c": (1, 0), "d": (0, 5)}
    assert changed_chats(old, old) == []
