"""`chats/`: the newest part's row of a chat counts, parts are read together, and what of two releases may differ is found by their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nightly.index.chat_parts import ChatParts
from shared.release.chats import COUNTED, ChatRow, ChatTable, changed_chats, in_both, version
from shared.release.manifest import CHATS, file_record
from shared.release.parts import part_files
from shared.system.files import sha256_file


class Kept:
    """What a night finds of the last one (nightly/index/previous.py)."""

    def __init__(self, path: Path | None, records: Mapping[str, dict[str, Any]]) -> None:
        self.path, self._records = path, records

    def record_of(self, _: str, made_with: Mapping[str, Any]) -> dict[str, Any] | None:
        assert made_with == {"version": version()}
        return {"parts": self._records} if self.path else None

    def prove(self, _: str, names: Collection[str]) -> None:
        assert {*names} <= {*self._records}

    def files(self, place: str, names: Collection[str]) -> dict[str, Any]:
        assert self.path or not names
        return {f"{place}/{name}": file_record((self.path or Path()) / place / name) for name in names}


class Nights:
    """Nights that write `chats/` and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root, self.run, self.records = root, 0, dict[str, dict[str, Any]]()

    @property
    def built(self) -> Path:
        return self.root / str(self.run)

    def night(self, *rows: ChatRow) -> list[str]:
        """The parts afterwards."""
        last = Kept(self.built if self.run else None, self.records)
        self.run += 1
        made = ChatParts(last, self.built, self.run).build(rows, lambda _: False)  # type: ignore[arg-type]
        self.records = made["places"][CHATS]["parts"]
        return [path.name for path in part_files(self.built / CHATS)]


def row(chat: str, turns: int, said: str = "", forgotten: int = 0) -> ChatRow:
    same = ("turns", "chunks", "with_chunks", "keywords", "vectors")
    counts = dict.fromkeys(COUNTED, 0) | dict.fromkeys(same, turns)
    return ChatRow(
        chat, f"{chat}-{turns}", counts | {"forgotten": forgotten, "archived": turns + forgotten}, said or None
    )


def gone(chat: str) -> ChatRow:
    return ChatRow(chat, "", dict.fromkeys(COUNTED, 0))


def test_the_newest_row_of_a_chat_counts_and_an_unchanged_one_is_not_written(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    assert nights.night(row("a", 1, "one"), row("b", 2, "two")) == ["1.sqlite"]
    assert nights.night(row("a", 3, "three"), row("b", 2, "two")) == ["1.sqlite", "2.sqlite"]
    assert nights.records["2.sqlite"]["rows"] == 1
    assert nights.night(row("b", 2, "two")) == ["1.sqlite", "2.sqlite"], "nothing is new"
    with ChatTable.of(nights.built) as table:
        assert list(table.summaries()) == [("a", "three"), ("b", "two")]
        assert (table.counts("a")["turns"], table.counts("404")["turns"], table.ids()) == (3, 0, ["a", "b"])
        assert table.largest() == "a"


def test_what_was_forgotten_stays_in_no_part(tmp_path: Path) -> None:
    """Also in an older part whose row of that chat does not count any more. The other chats of that part are written again."""
    nights = Nights(tmp_path)
    nights.night(row("a", 2, "pelican in the first night"), row("b", 1, "untouched"))
    nights.night(row("a", 3, "pelican in the second night"))
    nights.night(row("c", 1, "another"))
    assert nights.night(row("a", 2, "nothing of it", forgotten=1)) == ["3.sqlite", "4.sqlite"]
    assert not any(b"pelican" in path.read_bytes() for path in part_files(nights.built / CHATS))
    with ChatTable.of(nights.built) as table:
        assert list(table.summaries()) == [("a", "nothing of it"), ("b", "untouched"), ("c", "another")]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=6),
        max_size=20,
    )
)
def test_parts_of_many_nights_are_read_as_one_table(said: list[dict[str, tuple[int, int]]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        nights, wanted = Nights(Path(folder)), dict[str, ChatRow]()
        for night in said:
            rows = [row(chat, turns, f"{chat} {turns} {over}", over) for chat, (turns, over) in night.items()]
            nights.night(*rows)
            wanted |= {one.chat_id: one for one in rows}
        if not said:
            return
        with ChatTable.of(nights.built) as table:
            there = {chat: one for chat, one in sorted(wanted.items()) if not one.is_gone}
            assert {one.chat_id: table.row(one.chat_id) for one in table} == there


def test_what_two_releases_may_not_have_in_common_is_found_by_their_files(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    nights.night(row("a", 1), row("b", 2))
    old = nights.built
    nights.night(row("b", 1, forgotten=1), row("c", 1))
    files = [
        {f"{CHATS}/{path.name}": {"sha256": sha256_file(path)} for path in part_files(built / CHATS)}
        for built in (nights.built, old)
    ]
    changed = changed_chats(nights.built, old, *files)
    assert changed == ["a", "b", "c"], "the part with b's older row was made anew"
    with ChatTable.of(nights.built) as now, ChatTable.of(old) as before:
        found = {chat: (new["turns"], earlier["turns"]) for chat, new, earlier in in_both(changed, now, before)}
    assert found == {"a": (1, 1), "b": (1, 2), "c": (1, 0)}
    assert changed_chats(old, old, files[1], files[1]) == []
