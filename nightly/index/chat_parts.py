"""`chats/` of tonight (shared/release/chats.py): the rows of the chats with news become one more part, the parts of the last night are taken over.

The row that a chat has in an older part stays there until that part is merged. But if something of the chat was forgotten, each part with a row of it
is made anew: a summary may say what was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nightly.index.previous import Last, hash_files
from shared.release.chats import ChatRow, ChatTable, PartWriter, chats_in, rows_in, version
from shared.release.integrity import check_database
from shared.release.manifest import CHATS
from shared.release.parts import absorbed, new_part, part_files, take_over
from shared.system.faults import crash_point
from shared.system.files import make_dir


class ChatParts:
    """What the last night has of the chats, and the part that is written tonight."""

    def __init__(self, last: Last, out: Path, run: int, forgotten: Collection[str] = ()) -> None:
        """`forgotten`: the chats of which something is forgotten since the last night."""
        self._last, self._place, self._run, self._forgotten = last, out / CHATS, run, forgotten
        record = last.record_of(CHATS, {"version": version()})
        self._records: dict[str, dict[str, int]] = record["parts"] if record else {}
        paths = part_files(last.path / CHATS) if last.path and record else []
        self._paths = {path.name: path for path in paths}

    def build(self, rows: Iterable[ChatRow], stays: Callable[[ChatRow], bool]) -> dict[str, Any]:
        """Write what of these rows, one of each of tonight's chats, is not as it was. Returns what `Build.result` has of the other places.

        `stays`: whether a chat keeps the summary of this row, which is its earlier one, unless something of it was forgotten.
        """
        unnamed = make_dir(self._place) / f"{self._run}.new"
        with PartWriter(unnamed) as part, ChatTable(self._paths.values()) as known:
            forgotten = {*self._forgotten}
            for row in rows:
                earlier = known.row(row.chat_id)
                if earlier is not None and _more_is_forgotten(row, earlier):
                    forgotten.add(row.chat_id)
                if earlier is not None and row.chat_id not in forgotten and stays(earlier):
                    row = replace(row, summary=earlier.summary)
                if row != earlier and (earlier or row.made_from or not row.is_gone):
                    part.add(row)
            merged = self._merged(forgotten, len(part.chats))
            for row in self._carried(merged, part.chats):
                part.add(row)
        return self._named(unnamed, len(part.chats), [name for name in self._paths if name not in merged])

    def _merged(self, forgotten: Collection[str], new: int) -> set[str]:
        """The parts that are written again."""
        gone = {name for name, path in self._paths.items() if any(rows_in(path, forgotten))} if forgotten else set()
        others = {name: record["rows"] for name, record in self._records.items() if name not in gone}
        return gone | absorbed(others, new + sum(self._records[name]["rows"] for name in gone))

    def _carried(self, merged: Collection[str], tonight: Collection[str]) -> Iterator[ChatRow]:
        """The rows of the merged parts that count: those of which no newer part has another."""
        newer, left = {*tonight}, len(merged)
        for name, path in reversed(self._paths.items()):
            if not left:
                return
            chats = chats_in(path)
            if name in merged:
                left -= 1
                yield from rows_in(path, [chat for chat in chats if chat not in newer])
            newer.update(chats)

    def _named(self, unnamed: Path, count: int, taken: list[str]) -> dict[str, Any]:
        crash_point("summarise:part-written")
        for name in taken:
            take_over(self._paths[name], self._place)
        parts = {name: self._records[name] for name in taken}
        if count:
            check_database(unnamed)
            parts[unnamed.rename(new_part(self._place, self._run)).name] = {"rows": count}
        else:
            unnamed.unlink()
        return {
            "places": {CHATS: {"made_with": {"version": version()}, "parts": parts}},
            "files": hash_files(self._place.parent, CHATS, self._last.files(CHATS, taken)),
        }


def _more_is_forgotten(row: ChatRow, earlier: ChatRow) -> bool:
    return (row.counts["forgotten"] or 0) > (earlier.counts["forgotten"] or 0) or (row.is_gone and not earlier.is_gone)
