"""What exports of assistants have in common: one JSON file of conversations, each a tree of messages, of which one branch was the conversation.

A message that was edited, or an answer that was made again, is a further branch; only the branch that the person saw last comes in. The messages
of one conversation are kept in a temporary database while it is read: what says which branch it is may stand behind them, and there may be many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nightly.imports.candidates import ReadCandidate, made_up_id, read_turn
from nightly.imports.containers.members import Member, MemberStream
from nightly.imports.containers.opening import opened_export
from nightly.imports.formats import Source
from nightly.imports.json_stream import JsonStream
from nightly.night.scratch import scratch_database
from shared.text.format import one_line, shorten
from shared.turns.message_origin import Origin
from shared.turns.records import ANSWERS, CONVERSATION, RecordRefused, Turn, dumps, loads_object

#: The longest title that is kept.
TITLE_CHARACTERS = 200
OTHER_BRANCH = "of a branch that was edited or answered anew"
OTHER_CONVERSATION = "of another conversation than --only"

#: The parent of a first message, as Claude writes it.
_ZERO = re.compile(r"0{8}-0{4}-[04]0{3}-[08]0{3}-0{12}\Z")

_SCHEMA = """
CREATE TABLE nodes (
  node TEXT PRIMARY KEY, parent TEXT, number INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL, place INTEGER
) WITHOUT ROWID;
CREATE INDEX by_place ON nodes (place);
CREATE INDEX by_number ON nodes (number);
"""


@dataclass(frozen=True)
class ShownMessage:
    """A message that was shown. `at`: POSIX seconds. `attachment`: {"kind", "name"}, as in Origin."""

    role: Literal["user", "asst"]
    text: str
    at: float | None = None
    attachment: dict[str, str] | None = None


@dataclass
class Node:
    """One message in a conversation's tree: what was said, or why it is left out, or None for a node without a message."""

    node: str
    parent: str | None
    content: ShownMessage | str | None


@dataclass
class Conversation:
    """All of one conversation but its messages. `leaf`: the last message of the branch that was shown, as far as the file names it."""

    number: int
    identity: str = ""
    title: str = ""
    began: float | None = None
    leaf: str | None = None
    messages: bool = False
    refused: list[str] = field(default_factory=list)


#: Reads the member of a conversation that begins with this event, and yields messages: (conversation, stream, name, event, value).
Members = Callable[[Conversation, JsonStream, str, str, Any], Iterator[Node]]


@dataclass(frozen=True)
class Assistant:
    """How one assistant writes its export. `source`: the format's name. `prefix`: of the ids. `lacking`: said of an object without messages."""

    source: str
    prefix: str
    patterns: tuple[str, ...]
    members: Members
    lacking: str

    def read(self, path: Path, unit: int, source: Source) -> Iterator[ReadCandidate]:
        """Option `only`: the title of the conversations that are wanted; without it all are."""
        with opened_export(path, source.zone) as export, closing(_Tree()) as tree:

            def conversations(member: Member, done: Callable[[int], int]) -> Iterator[ReadCandidate]:
                return _Reading(self, export.place(member), done, unit, source, tree).conversations(member)

            yield from export.each(export.named(*self.patterns), conversations)


class _Tree:
    """The messages of one conversation, in a nameless database: in memory, and in a file that nobody can open once it is large."""

    def __init__(self) -> None:
        self._connection = scratch_database(None, _SCHEMA)
        self._number = 0

    def close(self) -> None:
        self._connection.close()

    def clear(self) -> None:
        self._connection.execute("DELETE FROM nodes")
        self._number = 0

    def add(self, node: Node) -> None:
        """Of several nodes by one id the last one counts."""
        kind, body = "none", b""
        if isinstance(node.content, str):
            kind, body = "left", node.content.encode()
        elif node.content is not None:
            kind, body = "said", dumps(vars(node.content))
        self._number += 1
        row = (_key(node.node), None if node.parent is None else _key(node.parent), self._number, kind, body)
        self._connection.execute("INSERT OR REPLACE INTO nodes VALUES (?,?,?,?,?,NULL)", row)

    def follow(self, leaf: str | None) -> None:
        """Mark the branch that ends here; without a leaf that is known, the one that ends with the last message."""
        node = None if leaf is None else _key(leaf)
        if node is None or self._one("SELECT node FROM nodes WHERE node = ?", node) is None:
            sql = """SELECT node FROM nodes WHERE kind != 'none' AND node NOT IN (SELECT parent FROM nodes WHERE parent IS NOT NULL)
                ORDER BY number DESC LIMIT 1"""
            node = self._one(sql)
        place = 0
        while node is not None and self._one("SELECT 1 FROM nodes WHERE node = ? AND place IS NULL", node):
            self._connection.execute("UPDATE nodes SET place = ? WHERE node = ?", (place, node))
            node, place = self._before(node), place + 1

    def _before(self, node: str) -> str | None:
        """The message before this one: its parent or, where that is not in the file, the one that stands ahead of it there. A parent without an id
        costs only itself, and not all that was said before it."""
        parent = self._one("SELECT parent FROM nodes WHERE node = ?", node)
        if parent is None or _ZERO.match(parent) or self._one("SELECT 1 FROM nodes WHERE node = ?", parent):
            return None if parent is None else str(parent)
        sql = "SELECT node FROM nodes WHERE number < (SELECT number FROM nodes WHERE node = ?) ORDER BY number DESC LIMIT 1"
        ahead = self._one(sql, node)
        return None if ahead is None else str(ahead)

    def branch(self) -> Iterator[tuple[str, int, ShownMessage | str]]:
        """(id, number, what was said or why it is left out) along the branch."""
        sql = (
            "SELECT node, number, kind, body FROM nodes WHERE place IS NOT NULL AND kind != 'none' ORDER BY place DESC"
        )
        for node, number, kind, body in self._connection.execute(sql):
            yield node, number, ShownMessage(**loads_object(body)) if kind == "said" else body.decode()

    def beside(self) -> int:
        """How many messages are on other branches."""
        return int(self._one("SELECT COUNT(*) FROM nodes WHERE place IS NULL AND kind = 'said'") or 0)

    def _one(self, sql: str, *values: object) -> Any:
        row = self._connection.execute(sql, values).fetchone()
        return row[0] if row else None


class _Reading:
    """One file of conversations."""

    def __init__(
        self, assistant: Assistant, place: str, done: Callable[[int], int], unit: int, source: Source, tree: _Tree
    ) -> None:
        self._assistant, self._place, self._done, self._unit, self._tree = assistant, place, done, unit, tree
        self._wanted, self._only = source.wanted, source.option("only")
        self._bytes: MemberStream | None = None

    @property
    def done(self) -> int:
        return self._done(self._bytes.done if self._bytes else 0)

    def conversations(self, member: Member) -> Iterator[ReadCandidate]:
        with closing(member.open()) as self._bytes:
            self._bytes.guarded = True
            stream = JsonStream(self._bytes, 0)
            event, _ = stream.begin()
            if event == "start_map":
                yield from self._conversation(stream, event, 1)
            elif event == "start_array":
                for number, (begun, _) in enumerate(stream.elements(), start=1):
                    yield from self._conversation(stream, begun, number)
            else:
                raise RecordRefused("it is no list of conversations")
            stream.end()

    def _conversation(self, stream: JsonStream, event: str, number: int) -> Iterator[ReadCandidate]:
        conversation = Conversation(number)
        self._tree.clear()
        if event != "start_map":
            stream.skip(event)
        else:
            for name, begun, value in stream.members():
                for node in self._assistant.members(conversation, stream, name, begun, value):
                    self._tree.add(node)
                    self._progress()
                self._progress()
        yield from self._outcome(conversation)

    def _progress(self) -> None:
        if self._bytes:
            self._bytes.progress()

    def _outcome(self, conversation: Conversation) -> Iterator[ReadCandidate]:
        place = f"{self._place}: conversation {conversation.number}"
        for why in conversation.refused:
            yield ReadCandidate(self.done, unreadable=why, place=place)
        if not conversation.messages:
            yield ReadCandidate(self.done, unreadable=self._assistant.lacking, place=place)
            return
        if self._only is not None and plain(conversation.title) != plain(self._only):
            yield ReadCandidate(self.done, left_out=OTHER_CONVERSATION)
            return
        self._tree.follow(conversation.leaf)
        yield from self._turns(conversation, place)
        for _ in range(self._tree.beside()):
            yield ReadCandidate(self.done, left_out=OTHER_BRANCH)

    def _turns(self, conversation: Conversation, place: str) -> Iterator[ReadCandidate]:
        asked, before = None, conversation.began
        for node, number, said in self._tree.branch():
            if isinstance(said, str):
                yield ReadCandidate(self.done, left_out=said)
                continue
            at = before = _later(said.at, before)
            if at is None:
                yield ReadCandidate(self.done, unreadable="it has no valid time", place=f"{place}, message {number}")
                continue
            own = made_up_id(self._assistant.prefix, self._wanted.chat, conversation.identity, node)
            question, asked = (None, own) if said.role == "user" else (asked, None)
            turn = self._turn(own, question, said, at, conversation.title)
            where = f"{place}, message {number}"
            yield read_turn(self._wanted, self.done, where, self._assistant.source, self._unit, turn)

    def _turn(self, task_id: str, question: str | None, said: ShownMessage, at: float, title: str) -> Turn:
        """Its id is its own node's alone, so an answer that was made anew is another turn, in whichever export it comes."""
        extra: dict[str, Any] = {CONVERSATION: title} if title else {}
        if question:
            extra[ANSWERS] = question
        if said.role == "user" and said.attachment:
            extra |= Origin.parse({"attachment": said.attachment}).to_json()
        return Turn(task_id, said.role, self._wanted.chat or "", said.text, at, extra=extra)


def _later(at: float | None, before: float | None) -> float | None:
    """The time of a message: its own. Without one, or at the same instant as the message before, just after that, so that their order stays."""
    if before is None or (at is not None and at != before):
        return at
    return before + 0.001


def title_of(value: object) -> str:
    return shorten(one_line(value), TITLE_CHARACTERS) if isinstance(value, str) else ""


def plain(title: str) -> str:
    return one_line(title).casefold()


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def identity_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _key(identity: str) -> str:
    """As SQLite takes it: half of a surrogate pair cannot be stored."""
    return identity.encode("utf-8", "backslashreplace").decode()
