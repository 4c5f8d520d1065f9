"""What exports have in common. Of assistants: one JSON file of conversations, each a tree of messages, of which one branch was the conversation.

A message that was edited, or an answer that was made again, is a further branch; only the branch that the person saw last comes in. The messages
of one conversation are kept while it is read: what says which branch it is may stand behind them.

Of messengers: messages without ids, by names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cachetools import LRUCache

from nightly.imports.candidates import MadeUpIds, ReadCandidate, Wanted, made_up_id, noted_by
from nightly.imports.containers.members import Member, MemberStream
from nightly.imports.containers.opening import Export, opened_export, printable
from nightly.imports.formats import Source
from nightly.imports.json_stream import JsonStream
from nightly.imports.recognition import outlines
from shared.errors import InvalidInput
from shared.text.format import one_line, shorten
from shared.turns.message_origin import Origin, is_group
from shared.turns.records import ANSWERS, BEGINS, CONVERSATION, RecordRefused, Turn

#: Where the conversations are.
PATTERNS = ("conversations.json", "conversations-*.json")
#: The longest title that is kept.
TITLE_CHARACTERS = 200
#: Senders of a file that are known by name: of one with more, nobody is refused.
_MOST_SENDERS = 50
OTHER_BRANCH = "of a branch that was edited or answered anew"
OTHER_CONVERSATION = "of another conversation than --only"

#: The parent of a first message, as Claude writes it.
_ZERO = re.compile(r"0{8}-0{4}-[04]0{3}-[08]0{3}-0{12}\Z")


@dataclass(frozen=True)
class ShownMessage:
    """A message that was shown. `at`: POSIX seconds. `attachment`: {"kind", "name"}, as in Origin.

    `noted_by`: it was not said, but is what this memory noted of the person then.
    """

    role: str
    text: str
    at: float | None = None
    attachment: dict[str, str] | None = None
    noted_by: str = ""


@dataclass
class Node:
    """One message in a conversation's tree: what was said, or why it is left out, or None for a node without a message."""

    node: str
    parent: str | None
    content: ShownMessage | str | None


@dataclass
class Conversation:
    """One conversation. `leaf`: the last message of the branch that was shown, as far as the file names it. `messages`: whether it may have any."""

    number: int
    identity: str = ""
    title: str = ""
    began: float | None = None
    leaf: str | None = None
    messages: bool = False
    refused: list[str] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    ids: MadeUpIds = field(default_factory=lambda: MadeUpIds("message"))  # of messages that have none

    def branch(self) -> list[Node]:
        """The branch that was shown; without a leaf that is known, the one that ends with the last message."""
        node, found = self.leaf, dict[str, Node]()
        if node not in self.nodes:
            parents = {one.parent for one in self.nodes.values()}
            ends = (name for name, one in reversed(self.nodes.items()) if one.content and name not in parents)
            node = next(ends, None)
        ahead = dict(zip([*self.nodes][1:], self.nodes, strict=False))
        while node in self.nodes and node not in found:
            found[node] = self.nodes[node]
            parent = found[node].parent
            # A parent without an id costs only itself, and not all that was said before it.
            lost = parent is not None and parent not in self.nodes and not _ZERO.match(parent)
            node = ahead.get(node) if lost else parent
        return [*found.values()][::-1]


@dataclass(frozen=True)
class Assistant:
    """How one assistant writes its export, `what`. `prefix`: of the ids. `messages`: the field that has a conversation's
    messages, and the event that begins it. `fields`: what the others are, by name. `node`: reads a message, from its name or number. `time`: reads a
    time. `sign`: the field by which conversations are recognised, as a pattern of paths."""

    prefix: str
    what: str
    messages: tuple[str, str]
    fields: Mapping[str, Literal["identity", "title", "began", "leaf"]]
    node: Callable[[Conversation, Any, Any], Node | None]
    time: Callable[[Any], float | None]
    sign: str

    def recognise(self, export: Export) -> str | None:
        sign = re.compile(rf"(?:\[\]\.)?{self.sign}")
        for where, paths in outlines(export, *PATTERNS):
            if any(map(sign.fullmatch, paths)):
                return f"{where} whose conversations have `{self.sign.partition('.')[0]}`"
        return None

    def read(self, path: Path, source: Source) -> Iterator[ReadCandidate]:
        """Option `only`: the title of the conversations that are wanted; without it all are."""
        with opened_export(path, source.zone) as export:
            yield from export.each(export.named(*PATTERNS), ConversationFiles(self, source).read)


class ConversationFiles:
    """Files of conversations, read one by one."""

    def __init__(self, assistant: Assistant, source: Source) -> None:
        self._assistant, self._chat, self._only = assistant, source.wanted.chat or "", source.options.get("only")
        self._person = source.options.get("as") if is_group(self._chat) else None

    def read(self, member: Member) -> Iterator[ReadCandidate]:
        with closing(member.open()) as content:
            content.guarded = True
            stream = JsonStream(content)
            event, _ = stream.begin()
            if event == "start_map":
                yield from self._conversation(stream, content, event, 1)
            elif event == "start_array":
                for number, (begun, _) in enumerate(stream.elements(), start=1):
                    yield from self._conversation(stream, content, begun, number)
            else:
                raise RecordRefused("it is no list of conversations")
            stream.end()

    def _conversation(
        self, stream: JsonStream, content: MemberStream, event: str, number: int
    ) -> Iterator[ReadCandidate]:
        conversation = Conversation(number)
        if event != "start_map":
            stream.skip(event)
        else:
            for name, begun, value in stream.members():
                if (name, begun) == self._assistant.messages:
                    self._messages(conversation, stream, content)
                else:
                    self._field(conversation, name, stream.value(begun, value))
                content.progress()
        yield from self._outcome(conversation, content.done)

    def _messages(self, conversation: Conversation, stream: JsonStream, content: MemberStream) -> None:
        conversation.messages = True
        numbered = ((number, *one) for number, one in enumerate(stream.elements(), start=1))
        inside: Iterator[tuple[str | int, str, Any]] = (
            stream.members() if self._assistant.messages[1] == "start_map" else numbered
        )
        for name, begun, value in inside:
            node = self._assistant.node(conversation, name, stream.value(begun, value))
            if node is not None:
                if (earlier := conversation.nodes.pop(node.node, None)) and earlier.content:
                    conversation.refused.append("a message has the id of a later one, which counts")
                conversation.nodes[node.node] = node
            content.progress()

    def _field(self, conversation: Conversation, name: str, value: Any) -> None:
        known = self._assistant.fields.get(name)
        if known == "identity":
            conversation.identity = identity_of(value) or conversation.identity
        elif known == "title":
            conversation.title = shorten(one_line(value), TITLE_CHARACTERS) if isinstance(value, str) else ""
        elif known == "began":
            conversation.began = self._assistant.time(value)
        elif known == "leaf":
            conversation.leaf = identity_of(value)

    def _outcome(self, conversation: Conversation, done: int) -> Iterator[ReadCandidate]:
        place = f": conversation {conversation.number}"
        for why in conversation.refused:
            yield ReadCandidate(done, unreadable=why, place=place)
        if not conversation.messages:
            field, what = self._assistant.messages[0], self._assistant.what
            yield ReadCandidate(done, unreadable=f"it has no {field}, so it is no conversation of {what}", place=place)
            return
        if self._only is not None and plain(conversation.title) != plain(self._only):
            yield ReadCandidate(done, left_out=OTHER_CONVERSATION)
            return
        branch = conversation.branch()
        yield from self._turns(conversation, branch, done, place)
        for _ in range(_said(conversation.nodes.values()) - _said(branch)):
            yield ReadCandidate(done, left_out=OTHER_BRANCH)

    def _turns(self, conversation: Conversation, branch: list[Node], done: int, place: str) -> Iterator[ReadCandidate]:
        asked, before, first = None, conversation.began, True
        numbers = {name: number for number, name in enumerate(conversation.nodes, start=1)}
        for node in branch:
            said, where = node.content, f"{place}, message {numbers[node.node]}"
            if said is None:
                continue
            if isinstance(said, str):
                yield ReadCandidate(done, left_out=said)
                continue
            at = before = _later(said.at, before)
            if at is None:
                yield ReadCandidate(done, unreadable="it has no valid time", place=where)
                continue
            whole = conversation.identity or conversation.began
            own = made_up_id(self._assistant.prefix, self._chat, whole, node.node)
            question = None
            if not said.noted_by:
                question, asked = (None, own) if said.role == "user" else (asked, None)
            about = {CONVERSATION: conversation.title} | ({BEGINS: True} if first else {}) if conversation.title else {}
            turn, first = self._turn(own, question, said, at, about), False
            yield ReadCandidate(done, turn, place=where)

    def _turn(self, task_id: str, question: str | None, said: ShownMessage, at: float, extra: dict[str, Any]) -> Turn:
        """Its id is its own node's alone, so an answer that was made anew is another turn, in whichever export it comes."""
        if question:
            extra[ANSWERS] = question
        if said.role == "user" and said.attachment:
            extra |= Origin.parse({"attachment": said.attachment}).to_json()
        if said.noted_by:
            extra |= noted_by(said.noted_by)
        name = self._person if said.role == "user" and not said.noted_by else None
        return Turn(task_id, said.role, self._chat, said.text, at, name, extra=extra)


def _said(nodes: Iterable[Node]) -> int:
    return sum(isinstance(node.content, ShownMessage) for node in nodes)


def _later(at: float | None, before: float | None) -> float | None:
    """The time of a message: its own. Without one, or at the same instant as the message before, just after that, so that their order stays."""
    if before is None or (at is not None and at != before):
        return at
    return before + 0.001


@dataclass
class Messenger:
    """The turns of a messenger's chat. `bot`: the name of the sender who is the assistant; `person`: of the one in whose private chat
    they come, who needs no name there.

    A turn's id is made of its time, its words, and which of equal messages it is: the first "ok" of a minute, the second, …, the same in a repeated
    export. Times may go back within a file, because a clock was set or a message came late. Counts are kept by hour, of the hours that were met last,
    so that a file of any length needs little memory.
    """

    source: str
    wanted: Wanted
    bot: str | None
    person: str | None
    _hours: LRUCache[int, MadeUpIds] = field(default_factory=lambda: LRUCache(8))
    _senders: dict[str, str] = field(default_factory=dict)  # as they are compared → as they are written

    def turn(self, sender: str, text: str, at: float, clock: object, **origin: dict[str, Any] | None) -> Turn:
        """`clock`: its time as far as every export has it; `origin`: as Origin takes it."""
        ids = self._hours.setdefault(int(at // 3600), MadeUpIds(self.source))
        by_bot = self.bot is not None and plain(sender) == plain(self.bot)
        chat = self.wanted.chat or ""
        if len(self._senders) < _MOST_SENDERS:
            self._senders.setdefault(plain(sender), sender)
        by_person = self.person is not None and plain(sender) == plain(self.person) and not is_group(chat)
        return Turn(
            ids.next(self.wanted.chat, clock, " ".join(text.split())),
            "asst" if by_bot else "user",
            chat,
            text.strip(),
            at,
            None if by_bot or by_person or not sender.strip() else sender,
            extra={} if by_bot else Origin.parse(origin).to_json(),
        )

    def people(self, path: Path, done: int) -> Iterator[ReadCandidate]:
        """Once all was read: who is in it, unless --as names the person of a private chat; InvalidInput if it names nobody in it."""
        some = ", ".join(printable(shorten(one, 40)) for one in self._senders.values())
        if self.person and plain(self.person) not in self._senders and 0 < len(self._senders) < _MOST_SENDERS:
            raise InvalidInput(
                f"Nobody in {path} is called {printable(self.person)}: there are {some}. Name one with --as NAME."
            )
        if some and not self.person and not is_group(self.wanted.chat or ""):
            yield ReadCandidate(done, note=f"people in it: {some} (--as NAME says which of them is you)")


def plain(title: str) -> str:
    return one_line(title).casefold()


def object_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def identity_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
