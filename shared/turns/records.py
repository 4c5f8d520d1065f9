"""The records that cross the wire: Task, Turn, Tombstone (Result: results.py). What cannot be trusted is refused here, with a reason.

Identity: a task id names a task, `task_id:role` names a turn, and both come from the Redis key or the task, never from a clock.
A record is read from bytes. Reading is strict where isolation or addressing depends on it (ids, role, chat) and lenient with the
rest: unknown fields of a turn are kept.

JSON may hold half of a surrogate pair (`"x \\ud83d y"`), which is no character and which no file, database or model takes. Task and Turn are the
one edge where that is settled: their fields hold text, with U+FFFD in its place, and `to_json` writes what was said (`as_said`), so that what
Redis and the archive hold stays as it came.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from shared.text.translations import language_of
from shared.turns.media import Media, media_of, media_words, with_label, with_media
from shared.turns.message_origin import NOWHERE, Origin, is_group
from shared.turns.speakers import UNNAMED
from shared.wire import keys
from shared.wire.ids import CHAT_ID_LENGTH, TASK_ID, chat_id_of, moment_of, task_id_of, timestamp_of, user_id_of
from shared.wire.json import RecordRefused, dumps, loads_object, text_of, well_formed

__all__ = [
    "ANSWERS", "BEGINS", "CHAT_ID_LENGTH", "CONVERSATION", "CORRECTED", "FACT", "MODELS", "MOST_TASK_BYTES", "NO_TEXT", "ROLES", "RecordRefused",
    "Task", "Tombstone", "Turn", "chat_id_of", "dumps", "loads_object", "task_id_of", "timestamp_of", "turn_key", "user_id_of", "well_formed",
    "with_text",
]  # fmt: skip

ROLES = ("user", "asst")
#: The size of the largest accepted task, a message with its metadata. A larger one is refused with an explanation.
MOST_TASK_BYTES = 262_144
#: Models that a person may choose in the chat. A task may name any other that the Claude CLI knows.
MODELS = ("opus", "sonnet", "haiku")

#: The field of an imported turn's record that holds the title of the conversation in which it was said.
CONVERSATION = "conversation"
#: The field of an imported turn's record that says that its conversation begins with it: true.
BEGINS = "begins"
#: The field of an imported answer's record that holds the task id of its question. An answer of ours has the task id of its question itself; one of
#: another assistant has an id of its own, because there a question may be answered anew.
ANSWERS = "answers"
#: The field of an imported turn's record that says that it is one thing which another program remembered, and becomes a typed memory: true.
FACT = "fact"

#: The field of a turn's record that says that its words are not the ones first heard or written.
CORRECTED = "corrected"

#: Fields of a task that its turn keeps as they came, whatever they say to other programs.
KEPT = ("channel", "language", "metadata")

#: The field of a task whose message stands in for one without words, such as "(picture)": true.
NO_TEXT = "no_text"

_SIGNATURE = re.compile(r"[0-9a-f]{128}\Z")
#: Names of models, as the Claude CLI takes them: `opus`, `claude-opus-4-5`, `sonnet[1m]`, those of Bedrock and Vertex. No option begins like this.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,127}\Z")


#: The fields of a turn's record that `Turn` has; those without a value are left out.
_TURN_FIELDS = ("chat_id", "role", "content", "timestamp", "task_id", "name", "session", "user_id")


def _make_well_formed(record: Task | Turn, *names: str) -> None:
    """Settle these fields of a record that is being made; `as_said` keeps changed ones as they were."""
    for name in names:
        said = getattr(record, name)
        if said is not None and (text := well_formed(said)) != said:
            object.__setattr__(record, name, text)
            record.as_said[name] = said


@dataclass(frozen=True)
class Task:
    """One message to answer, as the bot enqueued it."""

    task_id: str
    chat_id: str
    message: str
    user_id: str | None = None
    submitted_at: float | None = None  # POSIX seconds; None where missing or unreadable
    model: str | None = None
    name: str | None = None  # the speaker's display name
    origin: Origin = NOWHERE
    media: tuple[Media, ...] = ()
    retries: str | None = None  # the task whose message is asked again here: set by the dispatcher
    scheduled: bool = False  # asked by a schedule that the person set (/every)
    corrects: str | None = None  # the task of the recording or edited message whose words this one replaces
    edited: bool = False  # it is that message itself, which was edited after it was taken: it is not answered anew
    language: str | None = None  # of the program's own words in the answer, as ISO 639-1; None: English
    kept: dict[str, Any] = field(default_factory=dict, compare=False)  # of KEPT what it brings
    as_said: dict[str, str] = field(default_factory=dict, init=False, compare=False)  # what held a lone surrogate

    def __post_init__(self) -> None:
        _make_well_formed(self, "message", "name")

    @property
    def in_group(self) -> bool:
        return is_group(self.chat_id, self.origin.chat_type)

    @property
    def said(self) -> str:
        """The message as it came: what is stored."""
        return self.as_said.get("message", self.message)

    @property
    def words(self) -> str:
        """All that it holds of anybody's words: the message, and what that replies to or came with."""
        return "\n".join((self.message, *self.origin.texts, *media_words(self.media)))

    @property
    def digest(self) -> str:
        """What tells a repeated task from another one under the same id."""
        content = "\x00".join((self.chat_id, self.said, *(one.sha256 for one in self.media))).encode(
            "utf-8", "surrogatepass"
        )
        return hashlib.sha256(content).hexdigest()

    @classmethod
    def parse(cls, raw: bytes) -> Task:
        record = loads_object(raw)
        message = text_of(record, "message" if "message" in record else "command")
        if not message.strip():
            raise RecordRefused("message is empty")
        media = media_of(record)
        if media and record.get(NO_TEXT) is True:
            message = ""
        model = record.get("model")
        if model is not None and not (isinstance(model, str) and _MODEL.match(model)):
            raise RecordRefused(f"model is not the name of a model, such as {', '.join(MODELS)}")
        speaker, corrects, language = record.get("name"), record.get("corrects"), record.get("language")
        return cls(
            task_id=task_id_of(record.get("task_id")),
            chat_id=chat_id_of(record.get("chat_id")),
            message=message,
            user_id=user_id_of(record.get("user_id")),
            submitted_at=moment_of(record.get("submitted_at")),
            model=model,
            name=speaker if isinstance(speaker, str) and speaker.strip() else None,
            origin=Origin.parse(record),
            media=media,
            scheduled=record.get("scheduled") is True,
            corrects=corrects if isinstance(corrects, str) and TASK_ID.match(corrects) else None,
            edited=record.get("edited") is True,
            language=language_of(language) if isinstance(language, str) else None,
            kept={name: record[name] for name in KEPT if record.get(name) is not None},
        )


@dataclass(frozen=True)
class Turn:
    """One side of an exchange, exactly what was said. `user_id` is its task's: of the person who spoke, None for an answer or where none is known.

    A `user_id` that is not text, as in h-cli's tasks, is in `extra` too: so it is written as it came. What the words reply to, or whose they
    are, stands in `extra` as it came, too; `origin` is what is read of it, for questions only.
    """

    task_id: str
    role: str
    chat_id: str
    content: str
    timestamp: float  # POSIX seconds
    name: str | None = None
    session: str | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)
    user_id: str | None = None
    as_said: dict[str, str] = field(default_factory=dict, init=False, compare=False)  # what held a lone surrogate
    origin: Origin = field(default=NOWHERE, init=False)
    media: tuple[Media, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        _make_well_formed(self, "content", "name", "session")
        if self.extra and self.role == "user":
            object.__setattr__(self, "origin", Origin.parse(self.extra))
        if "media" in self.extra:
            object.__setattr__(self, "media", media_of(self.extra))

    @property
    def words(self) -> str:
        """All that it holds of anybody's words: what was said, and what that replies to or came with."""
        return "\n".join((self.content, *self.origin.texts, *media_words(self.media)))

    @property
    def remembered(self) -> str:
        """What was said, with a label for each file that came with it, and for the title of a conversation that it begins: what memory searches and
        shows."""
        said = with_media(self.content, self.media)
        return with_label(said, CONVERSATION, self.title) if self.title and self.extra.get(BEGINS) is True else said

    @property
    def title(self) -> str:
        """Of the conversation elsewhere from which it was imported; all turns of that one have it."""
        title = self.extra.get(CONVERSATION)
        return title if isinstance(title, str) else ""

    @property
    def turn_id(self) -> str:
        return f"{self.task_id}:{self.role}"

    @property
    def exchange(self) -> str:
        """The task id that pairs question and answer."""
        asked = self.extra.get(ANSWERS) if self.role == "asst" else None
        return asked if isinstance(asked, str) and TASK_ID.match(asked) else self.task_id

    @property
    def speaker(self) -> str:
        """What the turn is labelled with where a person or the model reads it."""
        return self.name or UNNAMED[self.role]

    @property
    def person(self) -> tuple[str, str, str | None]:
        """Who said it: role, name and id (shared/turns/speakers.py)."""
        return self.role, self.speaker, self.user_id

    def to_json(self) -> bytes:
        record = {name: value for name in _TURN_FIELDS if (value := getattr(self, name)) is not None}
        return dumps(record | self.as_said | self.extra)

    @classmethod
    def parse(cls, key: bytes, raw: bytes) -> Turn:
        """A turn from its Redis key and value, or RecordRefused."""
        task_id, role = turn_key(key)
        record = loads_object(raw)
        for field_name, expected in (("task_id", task_id), ("role", role)):
            if record.get(field_name, expected) != expected:
                raise RecordRefused(f"{field_name} in the value differs from the key's")
        name, session = record.get("name"), record.get("session")
        user = user_id_of(record.get("user_id")) if role == "user" else None
        known = {*_TURN_FIELDS} if user is not None and user == record["user_id"] else {*_TURN_FIELDS} - {"user_id"}
        return cls(
            task_id=task_id,
            role=role,
            chat_id=chat_id_of(record.get("chat_id")),
            content=text_of(record, "content"),
            timestamp=timestamp_of(record.get("timestamp")),
            name=name if isinstance(name, str) and name.strip() else None,
            session=session if isinstance(session, str) else None,
            extra={k: v for k, v in record.items() if k not in known},
            user_id=user,
        )


def with_text(task: dict[str, Any], text: str) -> dict[str, Any]:
    """The record of a task whose message is changed to this."""
    return {name: value for name, value in task.items() if name != NO_TEXT} | {"message": text}


def turns_of(names: Iterable[str], raws: Iterable[bytes | None], chat_id: str) -> list[Turn]:
    """The turns of this chat under these keys, without missing ones (the night has them) and unreadable ones (the night quarantines them)."""
    turns: list[Turn] = []
    for name, raw in zip(names, raws, strict=True):
        with suppress(RecordRefused):
            if raw is not None and (turn := Turn.parse(name.encode(), raw)).chat_id == chat_id:
                turns.append(turn)
    return turns


def time_order(turn: Turn) -> tuple[float, str, bool]:
    """The sort key of a chat's turns: of the same instant, a question comes before its answer."""
    return turn.timestamp, turn.task_id, turn.role != "user"


def turn_key(key: bytes) -> tuple[str, str]:
    """(task id, role) of a key `hcli:memory:<task_id>:<role>`, or RecordRefused."""
    text = key.decode("utf-8", "replace")
    task_id, separator, role = text.removeprefix(keys.MEMORY_PREFIX).rpartition(":")
    if not text.startswith(keys.MEMORY_PREFIX) or not separator or role not in ROLES:
        raise RecordRefused("the key is not hcli:memory:<task_id>:user or …:asst")
    return task_id_of(task_id), role


def _is_turn_id(value: object) -> bool:
    task_id, _, role = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return role in ROLES and bool(TASK_ID.match(task_id))


@dataclass(frozen=True)
class Tombstone:
    """What is to be forgotten: a whole chat up to a time, or turns by id. Applied by every build, for ever.

    JSON: `{"tombstone_id", "chat_id", "before": POSIX seconds | null, "turn_ids": [...] | null, "created_at"[, "erase": true][, "undo": true][,
    "said_at": {...}]}`. `before` null with no turn ids means: everything that the chat said up to `created_at`. `erase`: the bytes go too, out of the
    archive, its mirror and every release, and do not come back; without it they are only never recalled (what a model took for a wish
    cannot destroy the archive).
    `said_at`: turn id → POSIX seconds, as far as it is known, by which an import under other ids is recognised.
    `undo`: it takes back an import, which may come again: then its turns get other ids.
    `signature`: of the owner's key over `signed_bytes()`, as hex digits; the night erases by no other (shared/system/owner_key.py).
    """

    tombstone_id: str
    chat_id: str
    created_at: float
    before: float | None = None
    turn_ids: frozenset[str] | None = None  # None: the whole chat
    erase: bool = False
    said_at: dict[str, float] = field(default_factory=dict, hash=False)
    signature: str | None = None
    undo: bool = False

    def __post_init__(self) -> None:
        if self.turn_ids is not None and not self.turn_ids:
            # Without ids it covers the whole chat: whoever selected nothing did not mean that.
            raise ValueError("a tombstone of turns must name at least one")

    @property
    def named(self) -> frozenset[str]:
        """The ids of the turns that it names; of a whole chat none."""
        return self.turn_ids or frozenset()

    def covers(self, turn: Turn) -> bool:
        return turn.chat_id == self.chat_id and self.reaches(turn.turn_id, turn.timestamp)

    def reaches(self, turn_id: str, said_at: float) -> bool:
        """Whether it covers this turn of its chat."""
        if self.turn_ids is not None:
            return turn_id in self.turn_ids
        return said_at < (self.created_at if self.before is None else self.before)

    def signed_bytes(self) -> bytes:
        """What a signature is over: all of it, in one spelling."""
        record = json.loads(replace(self, signature=None).to_json())
        return b"hcli-memory tombstone\n" + json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii")

    def to_json(self) -> bytes:
        record = vars(self) | {"turn_ids": sorted(self.named) or None, "said_at": dict(sorted(self.said_at.items()))}
        more = ("erase", "said_at", "signature", "undo")  # only where they are set
        return dumps({name: value for name, value in record.items() if value or name not in more})

    @classmethod
    def parse(cls, raw: bytes) -> Tombstone:
        record = loads_object(raw)
        before, turn_ids = record.get("before"), record.get("turn_ids")
        erase, undo = record.get("erase", False), record.get("undo", False)
        if turn_ids is not None and not (isinstance(turn_ids, list) and turn_ids and all(map(_is_turn_id, turn_ids))):
            raise RecordRefused("turn_ids must be a list of task_id:role, or null for the whole chat")
        said_at, signature = record.get("said_at", {}), record.get("signature")
        if signature is not None and not (isinstance(signature, str) and _SIGNATURE.match(signature)):
            raise RecordRefused("signature must be 128 hex digits")
        if not (isinstance(erase, bool) and isinstance(undo, bool)):
            raise RecordRefused("erase and undo must be true or false")
        if not (isinstance(said_at, dict) and all(map(_is_turn_id, said_at))):
            raise RecordRefused("said_at must be an object of turn ids and times")
        return cls(
            tombstone_id=task_id_of(record.get("tombstone_id")),
            chat_id=chat_id_of(record.get("chat_id")),
            created_at=timestamp_of(record.get("created_at")),
            before=None if before is None else timestamp_of(before),
            turn_ids=None if turn_ids is None else frozenset(turn_ids),
            erase=erase,
            said_at={turn_id: timestamp_of(at) for turn_id, at in said_at.items()},
            signature=signature,
            undo=undo,
        )
