"""`result.json` of Telegram Desktop, however large: read once for what the chats are, and again for the messages of the chats that are wanted.

Nothing here holds the messages of a chat, or their ids: of a chat only who wrote in it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from nightly.imports.containers.members import Member, MemberStream
from nightly.imports.json_stream import JsonStream
from shared.turns.records import RecordRefused

_SENDER = re.compile(r"(?:user)?(\d+)\Z")
#: What tells who wrote a message.
_WRITER = frozenset(("from", "from_id"))
#: Where an account has its chats.
_GROUPS = ("chats", "left_chats")


@dataclass
class People:
    """Who wrote in a chat, by user id. `named`: whether one of the name that is looked for did; `first_named`: the id of the first of them."""

    senders: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)  # of those who do not have the name
    named: bool = False
    first_named: str | None = None

    def add(self, message: dict[str, Any], name: str | None) -> None:
        sender = sender_of(message)
        if name is not None and plain(message.get("from")) == name:
            self.first_named = self.first_named if self.named else sender
            self.named = True
        elif sender:
            self.others.add(sender)
        if sender:
            self.senders.add(sender)


@dataclass
class TelegramChat:
    """A chat without its messages. `place`: which of the file's lists of messages is its, from 0; None if it has none."""

    about: dict[str, Any] = field(default_factory=dict)  # type, id, name
    has_messages: bool = False  # or anything else by that name
    place: int | None = None
    messages: int = 0
    people: People = field(default_factory=People)


@dataclass
class Account:
    """The contents of the file: the chats, and the owner of the export (only for a whole account)."""

    chats: list[TelegramChat]
    owner: str | None = None
    single: bool = True


def account_in(member: Member, name: str | None) -> Account:
    """The chats, and whether somebody of this name (as `plain` makes it) wrote in them. RecordRefused, unless the whole file can be read."""
    with closing(member.open()) as content:
        walk = _Walk(content, _WRITER)
        for chat, messages in walk.lists():
            for message in messages:
                chat.messages += 1
                if isinstance(message, dict):
                    chat.people.add(message, name)
    account = walk.account()
    if not all(chat.place is not None for chat in account.chats):
        raise RecordRefused("it contains a chat without messages")
    return account


def talks_in(member: Member, account: Account) -> Iterator[tuple[TelegramChat, Iterator[Any]]]:
    """Each chat with its messages, each whole, in the order of the file, which is read again. RecordRefused if it changed."""
    chats = {chat.place: chat for chat in account.chats}
    with closing(member.open()) as content:
        for found, messages in _Walk(content, None).lists():
            if found.place in chats:
                yield chats.pop(found.place), messages
    if chats:
        raise RecordRefused("it has fewer chats")


class _Walk:
    """One reading of the document. `kept`: the fields of a message that are read; None: all."""

    def __init__(self, content: MemberStream, kept: frozenset[str] | None) -> None:
        content.guarded = True
        self._stream, self._progress, self._kept, self._places = JsonStream(content), content.progress, kept, 0
        self._document = TelegramChat()
        self._owner: str | None = None
        self._groups: dict[str, list[TelegramChat] | None] = {}

    def account(self) -> Account:
        """What was found, once `lists` is through."""
        if self._document.has_messages:
            return Account([self._document])
        groups = [group for name in _GROUPS if (group := self._groups.get(name)) is not None]
        if not groups:
            raise RecordRefused("it contains neither a chat (messages) nor an account (chats)")
        return Account([chat for group in groups for chat in group], self._owner, single=False)

    def lists(self) -> Iterator[tuple[TelegramChat, Iterator[Any]]]:
        """Each list of messages in the file, in its order, and the chat that it is of. Of two members by one name the last one counts."""
        if self._stream.begin()[0] != "start_map":
            raise RecordRefused("a JSON object was expected")
        for name, event, value in self._stream.members():
            if name in _GROUPS:
                yield from self._group(name, event)
            elif name == "personal_information":
                about = self._members(event, value, frozenset(("user_id",)))
                owner = about.get("user_id") if isinstance(about, dict) else None
                self._owner = str(owner) if isinstance(owner, int) else None
            else:
                yield from self._member(self._document, name, event, value)
            self._progress()
        self._stream.end()

    def _group(self, group: str, event: str) -> Iterator[tuple[TelegramChat, Iterator[Any]]]:
        self._groups[group] = None
        if event != "start_map":
            self._skip(event)
            return
        for name, inner, _ in self._stream.members():
            if name == "list":
                chats = list[TelegramChat]()
                self._groups[group] = chats if inner == "start_array" else None
            if name != "list" or inner != "start_array":
                self._skip(inner)
                continue
            for begun, _ in self._stream.elements():
                chats.append(TelegramChat())
                if begun == "start_map":
                    for member in self._stream.members():
                        yield from self._member(chats[-1], *member)
                else:
                    self._skip(begun)

    def _member(
        self, chat: TelegramChat, name: str, event: str, value: Any
    ) -> Iterator[tuple[TelegramChat, Iterator[Any]]]:
        if name in ("type", "id", "name"):
            about = self._stream.value(event, value)
            chat.about[name] = about if isinstance(about, str | int) else None
        elif name != "messages":
            self._skip(event)
        else:
            chat.has_messages, chat.place, chat.messages, chat.people = True, None, 0, People()
            if event != "start_array":
                self._skip(event)
                return
            chat.place = self._places
            self._places += 1
            messages = self._stream.elements()
            yield chat, (self._message(*message) for message in messages)
            for begun, _ in messages:  # that nobody asked for
                self._skip(begun)
        self._progress()

    def _message(self, event: str, value: Any) -> Any:
        message = self._members(event, value, self._kept)
        self._progress()
        return message

    def _skip(self, event: str) -> None:
        """Of any length, because nothing of it is kept, but for one value in it that is too long."""
        self._stream.skip(event, self._progress)

    def _members(self, event: str, value: Any, kept: frozenset[str] | None) -> Any:
        """A value; of an object only these members, where they are named."""
        if event != "start_map" or kept is None:
            return self._stream.value(event, value)
        found = {}
        for name, inner, part in self._stream.members():
            if name in kept:
                found[name] = self._stream.value(inner, part)
            else:
                self._stream.skip(inner)
        return found


def sender_of(message: dict[str, Any]) -> str | None:
    """The user id of the person or bot who wrote; None for a channel, a group's name, or no sender."""
    found = _SENDER.match(str(message.get("from_id", "")))
    return found[1] if found else None


def plain(name: object) -> str:
    return str(name or "").strip().removeprefix("@").casefold()
