"""Signal, in the two forms in which its chats can be had as text.

**Signal's own export** (phone, Settings, Chats, Export chat history; since 2026): a directory with `main.jsonl`, `metadata.json` and `files/`. A line
is one frame of Signal's backup format as JSON (libsignal: BackupJsonExporter, rust/message-backup/src/proto/backup.proto). Numbers of 64 bits are
texts there:

    {"recipient": {"id": "2", "contact": {"systemGivenName", "profileGivenName", ...}}}, {"recipient": {"id": "1", "self": {}}},
    {"recipient": {"id": "3", "group": {"snapshot": {"title": {"title"}}}}}, {"chat": {"id": "1", "recipientId": "2"}},
    {"chatItem": {"chatId", "authorId", "dateSent": "1700000000000", "incoming" or "outgoing": {}, "standardMessage": {"text": {"body"},
        "quote": {"authorId", "text": {"body"}}, "attachments": [{"pointer": {"contentType", "fileName"}}]}}}

A person who is mentioned is U+FFFC in a body, and in its `bodyRanges` ([{"start", "length", "mentionAci"}], in units of UTF-16).

**sigexport** (github.com/carderne/signal-export, which reads Signal Desktop): a directory for each chat, with `data.json`, a line for each message
({"date", "sender", "body", "quote", "attachments": [{"name"}], ...}). Its times are local, taken as those of CHAT_TIMEZONE, unless they name their
zone.

A chat is told by its id, for sigexport its directory, and never by its name: two people may have one name, and some have none. The files are read
twice, first to find out which chats are in them.

Signal's encrypted backups are not read. A turn's id is made of its second, its words, and its number among equal ones of that second.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from nightly.imports.candidates import Found, ReadCandidate, time_of
from nightly.imports.containers.members import Member
from nightly.imports.containers.opening import Export, opened_export, printable
from nightly.imports.formats import ImportFormat, Source, file_by_file
from nightly.imports.readers.conversations import OTHER_CONVERSATION, Messenger, list_of, object_of, plain
from nightly.imports.recognition import first_records
from shared.errors import InvalidInput
from shared.hooks import hook
from shared.text.format import one_line, shorten, utf16_units
from shared.turns.records import RecordRefused, loads_object, timestamp_of

_NO_TEXT = "without text (media, a call, a notice)"
#: Recipients and chats of an account that are kept; nobody has as many.
_MOST_PEOPLE = 100_000
#: As Signal names a person's chat with himself.
_OWN_NOTES = "Note to Self"
#: What kinds of recipients there are, by the name of their field.
_KINDS = {
    "self": "notes to oneself", "contact": "a person", "group": "a group", "distributionList": "a list for stories", "releaseNotes": "news of Signal",
    "callLink": "a call link",
}  # fmt: skip
#: What a line of Signal's own export is, by the name of its field; the first one is of the backup itself.
_FRAMES = frozenset(
    ("backupTimeMs", "account", "recipient", "chat", "stickerPack", "adHocCall", "notificationProfile", "chatFolder")
)
#: What stands in a text for a person.
_MENTION = "\ufffc"
#: Chats that are listed where one must be chosen.
_SHOWN_CHATS = 20


@dataclass(frozen=True)
class _Chat:
    """`file`: where it is, `number`: what tells it there, and is taken by --only. `name`: as Signal shows it; "" if it has none."""

    file: str
    number: str
    name: str = field(compare=False)
    kind: str = field(compare=False)

    def shown(self, messages: int) -> str:
        """As a terminal may show it."""
        name = printable(shorten(one_line(self.name), 40))
        return f"{printable(self.number)} ({name or 'without a name'}; {self.kind}; {messages} messages)"


@dataclass(frozen=True)
class _Message:
    chat: _Chat
    sender: str
    text: str
    at: float
    quote: dict[str, Any] | None = None
    attachment: dict[str, str] | None = None


#: A message, or why one is left out, or None for a line that is none; RecordRefused for one that cannot be read.
_Look = Callable[[], _Message | str | None]


@dataclass
class _Account:
    """What the frames ahead of the messages say: names and kinds by recipient, recipients by chat. `me`: the owner's recipient."""

    file: str
    names: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    chats: dict[str, str] = field(default_factory=dict)
    mentioned: dict[str, str] = field(default_factory=dict)  # names by ACI, by which a mention tells a person
    me: str | None = None
    own_name: str = "Me"

    def frame(self, record: dict[str, Any]) -> _Message | str | None:
        if isinstance(record.get("chatItem"), dict):
            return self._message(record["chatItem"])
        account, recipient, chat = (object_of(record.get(name)) for name in ("account", "recipient", "chat"))
        if account:
            self.own_name = _full_name(account, "") or self.own_name
        elif recipient and len(self.names) < _MOST_PEOPLE:
            self._recipient(recipient)
        elif chat and len(self.chats) < _MOST_PEOPLE:
            self.chats[str(chat.get("id"))] = str(chat.get("recipientId"))
        if not _FRAMES & record.keys():
            raise RecordRefused("it is no frame of Signal's that is known")
        return None

    def _recipient(self, recipient: dict[str, Any]) -> None:
        identity, contact = str(recipient.get("id")), object_of(recipient.get("contact"))
        title = object_of(object_of(object_of(recipient.get("group")).get("snapshot")).get("title")).get("title")
        self.names[identity] = _name_of(contact) or (title if isinstance(title, str) else "")
        self.kinds[identity] = next((kind for name, kind in _KINDS.items() if name in recipient), "of another kind")
        if isinstance(contact.get("aci"), str):
            self.mentioned[contact["aci"]] = self.names[identity]
        if "self" in recipient:
            self.me, self.names[identity] = identity, _OWN_NOTES

    def _chat(self, item: dict[str, Any]) -> _Chat:
        number = str(item.get("chatId"))
        recipient = self.chats.get(number, "")
        kind = self.kinds.get(recipient, "of an unknown recipient")
        return _Chat(self.file, f"#{number}", self.names.get(recipient, ""), kind)

    def _message(self, item: dict[str, Any]) -> _Message | str:
        message, author = object_of(item.get("standardMessage")), str(item.get("authorId"))
        body = self._words(message.get("text"))
        if not body.strip():
            return _NO_TEXT
        try:
            at = timestamp_of(int(str(item.get("dateSent"))) / 1000)
        except (ValueError, OverflowError) as error:
            raise RecordRefused("its time is not valid") from error
        outgoing = "outgoing" in item or author == self.me
        sender = self.own_name if outgoing else self.names.get(author, "")
        return _Message(self._chat(item), sender, body, at, self._quote(message), _pointer(message))

    def _quote(self, message: dict[str, Any]) -> dict[str, Any] | None:
        quote = object_of(message.get("quote"))
        author = str(quote.get("authorId"))
        name = self.own_name if author == self.me else self.names.get(author, "")
        words = self._words(quote.get("text"))
        return {"text": words, "from": name} if words else None

    def _words(self, text: object) -> str:
        """Those of a text, with `@Name` for each mention. Of the owner's own ACI nothing in the export speaks, so whom nobody knows by it is he."""
        body, ranges = (object_of(text).get(name) for name in ("body", "bodyRanges"))
        first, *others = body.split(_MENTION) if isinstance(body, str) else [""]
        people = {
            str(one.get("start", 0)): str(one["mentionAci"])
            for one in map(object_of, list_of(ranges))
            if "mentionAci" in one
        }
        words, place = [first], utf16_units(first)
        for part in others:
            person = people.get(str(place))
            words += [_MENTION if person is None else f"@{self.mentioned.get(person, self.own_name)}", part]
            place += 1 + utf16_units(part)
        return "".join(words)


def read(path: Path, source: Source) -> Iterator[ReadCandidate]:
    """Options: `bot`, the name of the sender who is the assistant; `only`, the name or number of the chat. InvalidInput if several are left."""

    def messages(member: Member) -> Iterator[ReadCandidate]:
        for number, look, done in _messages(member, source.zone):
            yield ReadCandidate.of(done, f":{number}", partial(taken, look))

    def taken(look: _Look) -> Found:
        one = look()
        if not isinstance(one, _Message):
            return one
        if one.chat != chat:
            return OTHER_CONVERSATION
        return messenger.turn(one.sender, one.text, one.at, int(one.at), quote=one.quote, attachment=one.attachment)

    messenger = Messenger("signal", source.wanted, source.options.get("bot"), source.options.get("as"))
    with opened_export(path, source.zone) as export:
        members = _chosen(export)
        chat = _wanted_chat(export, members, source.zone, source.options.get("only"))
        yield from export.each(members, messages)
        yield from messenger.people(path, export.size)


def _chosen(export: Export) -> list[Member]:
    """Signal's own file where there is one."""
    members = export.named("main.jsonl", "data.json")
    return [one for one in members if one.base.lower() == "main.jsonl"] or members


def _wanted_chat(export: Export, members: list[Member], zone: ZoneInfo, only: str | None) -> _Chat | None:
    """The chat that is imported; None if nothing is. InvalidInput, with those to choose from, if it is not clear which."""
    counts = Counter[_Chat]()
    for chat in _chats(members, zone):
        if chat in counts or len(counts) < _MOST_PEOPLE:
            counts[chat] += 1
    found = [*counts] if only is None else _named([*counts], only)
    if len(found) <= 1:
        return found[0] if found else None
    shown = "; ".join(one.shown(counts[one]) for one in sorted(found, key=lambda one: -counts[one])[:_SHOWN_CHATS])
    more = "; …" if len(found) > _SHOWN_CHATS else ""
    raise InvalidInput(
        f"{export.path} has several chats{'' if only is None else ' that --only fits'}: {shown}{more}. Name the one that belongs to --chat with "
        "--only NAME, as Signal shows it, or with its number as above; nothing was imported."
    )


def _chats(members: list[Member], zone: ZoneInfo) -> Iterator[_Chat]:
    """That of each message. What cannot be read is reported when it is imported."""
    for member in members:
        with suppress(RecordRefused):
            for _, look, _ in _messages(member, zone):
                with suppress(RecordRefused):
                    if isinstance(one := look(), _Message):
                        yield one.chat


def _named(chats: list[_Chat], only: str) -> list[_Chat]:
    """By the number as it is listed, else by the name, else by the number alone."""
    return (
        [one for one in chats if one.number == only.strip()]
        or [one for one in chats if plain(one.name) == plain(only)]
        or [one for one in chats if one.number == f"#{only.strip()}"]
    )


def _messages(member: Member, zone: ZoneInfo) -> Iterator[tuple[int, _Look, int]]:
    """(line, what reads it, bytes so far); all are to be read, in this order."""
    account = _Account(member.name)
    chat = _Chat("", str(PurePosixPath(member.name).parent), member.folder, "a directory of sigexport")
    number = 0
    for number, line, done in member.lines():
        if line is None or line.strip():
            yield number, partial(_json, line, account, chat, zone), done
    if not number:
        raise RecordRefused("it is empty")


def _json(line: str | None, account: _Account, chat: _Chat, zone: ZoneInfo) -> _Message | str | None:
    """A line of Signal's own export, or of sigexport's `data.json`."""
    if line is None:
        raise RecordRefused("the line is too long")
    record = loads_object(line.encode("utf-8", "surrogatepass"))
    if "sender" not in record and "body" not in record:
        return account.frame(record)
    body, sender = record.get("body"), record.get("sender")
    if not isinstance(body, str) or not body.strip() or record.get("deleted") is True:
        return _NO_TEXT
    at = time_of(record.get("date"), zone)
    quote = record.get("quote")
    quoted = {"text": re.sub(r"(?m)^> ?", "", quote).strip()} if isinstance(quote, str) and quote.strip() else None
    names = [object_of(one).get("name") for one in list_of(record.get("attachments"))]
    attachment = next(({"kind": "document", "name": name} for name in names if isinstance(name, str)), None)
    return _Message(chat, sender if isinstance(sender, str) else "", body, at, quoted, attachment)


def _full_name(record: dict[str, Any], ahead: str) -> str:
    """Given and family name; `ahead`: what their fields begin with, `profile` or `system`."""
    fields = (f"{ahead}{part}" if ahead else part[0].lower() + part[1:] for part in ("GivenName", "FamilyName"))
    return " ".join(value for value in map(record.get, fields) if isinstance(value, str) and value).strip()


def _name_of(contact: dict[str, Any]) -> str:
    nickname = object_of(contact.get("nickname"))
    nick = " ".join(value for value in (nickname.get("given"), nickname.get("family")) if isinstance(value, str))
    number, username = contact.get("e164"), contact.get("username")
    named = nick or _full_name(contact, "system") or _full_name(contact, "profile")
    return named or (f"+{number}" if number else username if isinstance(username, str) else "")


def _pointer(message: dict[str, Any]) -> dict[str, str] | None:
    """The first attachment."""
    for one in list_of(message.get("attachments")):
        pointer = object_of(object_of(one).get("pointer"))
        kind, name = str(pointer.get("contentType", "")).partition("/")[0], pointer.get("fileName")
        known = {"image": "photo", "video": "video", "audio": "audio"}.get(kind, "document")
        return {"kind": known} | ({"name": name} if isinstance(name, str) else {})
    return None


def _recognise(export: Export) -> str | None:
    for where, records in first_records(export, "main.jsonl", "data.json"):
        for one in records:
            if "backupTimeMs" in one or _KINDS.keys() & object_of(one.get("recipient")).keys():
                return f"{where} whose lines are frames of Signal's backup"
            if {"date", "sender", "body"} <= one.keys():
                return f"{where} whose lines have `date`, `sender` and `body`, as sigexport writes them"
    return None


@hook
def import_formats() -> Sequence[ImportFormat]:
    what = "Signal's chats (main.jsonl, or sigexport's data.json; ZIP of them)"
    return [ImportFormat("signal", what, file_by_file(read), _recognise, options=("bot", "as", "only"))]
