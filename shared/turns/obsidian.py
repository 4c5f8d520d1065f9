"""A chat as a vault that Obsidian opens: a note for each day, each linked with the day before and the day after it, and a note that lists them.

    Chat.md, Days/2026-02-09.md, …        and what else its maker adds, such as Memories.md

What people and models say is shown, and does nothing. In Obsidian, Markdown can do more than in a document: `[[…]]` links, `![[…]]` embeds, `#` tags,
`%%` hides, `key:: value` is a field, Dataview and other plugins run code that stands in backticks, Templater runs what stands in `<% %>` anywhere in
a note, and a picture's address is fetched when the note is opened. So nothing of a text is left as Markdown: each character that could begin
something has a backslash ahead of it, which also parts the two characters of each of these marks, and no code is shown as code (conversation.md has
it as it was said). Names of files are ours alone, also of those that came with messages, none of which is a note; values of the front matter are JSON
texts, which are YAML, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO
from zoneinfo import ZoneInfo

from shared.text.format import date_text, one_line, time_text
from shared.turns.conversation import about
from shared.turns.media_files import FOLDER, FileNames, files_of, is_picture
from shared.turns.records import Turn
from shared.turns.speakers import Speaker

INDEX, DAYS = "Chat", "Days"

#: What may begin something wherever it stands. A colon does where a word, an address or another colon follows it, a full stop behind `www`.
_MARKS = re.compile(r"[\\`*_\[\]<>{}&|~$=%^#]|:(?=[^\s\d])|(?<=:):|(?<=[Ww]{3})\.")
#: What begins a list, a line across the page, or a heading of the line above it.
_BEGINNING = re.compile(r"(\s*)([-+]|\d{1,9}(?=[.)]))([.)]?)")
#: What no file in UTF-8 holds, what a terminal obeys, and what turns the direction of writing.
_UNWRITABLE = re.compile(r"[\ud800-\udfff\x00-\x08\x0e-\x1b\x7f\u202a-\u202e\u2066-\u2069]")
_NO_BREAK = "\u00a0"


class Vault:
    """The notes of one chat, as its turns come in the order of time. `open_note` opens the new file of this path, relative to the vault."""

    def __init__(
        self,
        chat_id: str,
        zone: ZoneInfo,
        open_note: Callable[[str], IO[bytes]],
        marks: Mapping[Speaker, str] | None = None,
        more: Iterable[str] = (),
        files: FileNames | None = None,
    ) -> None:
        """`marks` tell people of one name apart (shared/turns/speakers.py). `more`: names of further notes, which each day links to. `files`: those
        in the vault's folder `media`; pictures are shown, others are linked."""
        self._chat_id, self._zone, self._open_note, self._marks = chat_id, zone, open_note, marks or {}
        self._more, self._files = tuple(more), {} if files is None else files
        self.days: list[str] = []
        self._note: IO[bytes] | None = None

    def __enter__(self) -> Vault:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._note:
            self._note.close()
        if kind is None:
            with self._open_note(f"{INDEX}.md") as note:
                note.writelines(piece.encode() for piece in self._index())

    def passing(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """The same turns, each written as it passes."""
        for turn in turns:
            self.add(turn)
            yield turn

    def add(self, turn: Turn) -> None:
        day = date_text(turn.timestamp, self._zone)
        if not self.days or day != self.days[-1]:
            self._begin(day)
        assert self._note  # noqa: S101 - a day has begun
        who = f"{turn.speaker} {self._marks.get(turn.person, '')}"
        clock, origin = time_text(turn.timestamp, self._zone).rpartition(" ")[2], about(turn.origin)
        head = f"\n**{clock} {inline(who)}**{f' {inline(origin)}' if origin else ''}\n\n"
        self._note.write(f"{head}{quoted(turn.remembered)}\n".encode())
        for _, name in files_of(turn, self._files):
            self._note.write(f"\n{'!' if is_picture(name) else ''}[[{FOLDER}/{name}]]\n".encode())

    def _begin(self, day: str) -> None:
        before = self.days[-1] if self.days else None
        if self._note:
            self._note.write(f"\nNext: {day_link(day)}\n".encode())
            self._note.close()
        self.days.append(day)
        self._note = self._open_note(f"{DAYS}/{day}.md")
        head = front_matter({"title": day, "date": day, "chat": self._chat_id, "timezone": self._zone.key})
        links = [f"Chat: [[{INDEX}]]", *(f"[[{name}]]" for name in self._more)]
        links += [f"Before: {day_link(before)}"] if before else []
        self._note.write(f"{head}\n# {day}\n\n{' · '.join(links)}\n".encode())

    def _index(self) -> Iterator[str]:
        yield front_matter({"title": f"Chat {self._chat_id}", "chat": self._chat_id, "timezone": self._zone.key})
        yield f"\n# Chat {inline(self._chat_id)}\n"
        if self._more:
            yield f"\n{' · '.join(f'[[{name}]]' for name in self._more)}\n"
        month = ""
        for day in self.days:
            if day[:7] != month:
                month = day[:7]
                yield f"\n## {month}\n\n"
            yield f"- {day_link(day)}\n"


def day_link(day: str) -> str:
    return f"[[{DAYS}/{day}|{day}]]"


def front_matter(values: Mapping[str, str]) -> str:
    """As YAML: the names are ours, the values may be anybody's."""
    return "".join(["---\n", *(f"{name}: {_value(value)}\n" for name, value in values.items()), "---\n"])


def _value(text: str) -> str:
    return json.dumps("".join(letter for letter in one_line(text) if letter.isprintable()), ensure_ascii=False)


def inline(text: str) -> str:
    """A text within a line of ours."""
    shown = "".join(letter for letter in one_line(_UNWRITABLE.sub("", text)) if letter.isprintable())
    return _without_beginning(_MARKS.sub(r"\\\g<0>", shown)) or "\ufffd"  # the line may be an item of a list


def quoted(text: str) -> str:
    """A text as a block quote, line by line."""
    lines = (_line(line) for line in _UNWRITABLE.sub("\ufffd", text).splitlines())
    return "\n".join(f"> {line}" if line else ">" for line in lines) or ">"


def _line(line: str) -> str:
    """The blanks that it begins with would make code of it; the two at its end keep the lines apart."""
    bare = line.strip().expandtabs(4)
    indent = _NO_BREAK * (len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip()))
    shown = _MARKS.sub(r"\\\g<0>", bare)
    return f"{indent}{_without_beginning(shown)}  " if bare else ""


def _without_beginning(shown: str) -> str:
    """The text, if it begins like an item of a list, so that it is none."""
    return _BEGINNING.sub(_escaped_beginning, shown, count=1) if _BEGINNING.match(shown) else shown


def _escaped_beginning(found: re.Match[str]) -> str:
    blanks, mark, dot = found.groups()
    return f"{blanks}{mark}\\{dot}" if dot else f"{blanks}\\{mark}" if not mark.isdigit() else f"{blanks}{mark}"
