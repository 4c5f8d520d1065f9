"""What one of our programs signs, so that the others believe it: records in Redis, and the Result on its way to the bot.

Records in Redis are believed only if one of our programs has signed them: whoever else may write there can neither speak as the bot nor let
anybody in. The signature is an HMAC under RESULT_HMAC_KEY over the record and its place, so that none can be moved to another one.

The Result, as it crosses the wire, is an answer on its way to the bot, the buttons below it, and the files that are sent after it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from shared.errors import SettingsError
from shared.text.format import cut
from shared.turns.media import MEDIA_MOST, Media, media_of
from shared.wire.json import RecordRefused, dumps, loads_object, text_of

if TYPE_CHECKING:
    from shared.config.settings import Settings

_FIELD = "hmac"


def sign_record(secret: str, place: str, record: Mapping[str, Any]) -> bytes:
    """The record as JSON with its signature. `place`: its key, or `<key> <field>` for a field of a hash."""
    return dumps({**record, _FIELD: _signature(secret, place, loads_object(dumps(record)))})


def signed_record(secret: str, place: str, raw: bytes) -> dict[str, Any]:
    """The record without its signature; RecordRefused for one that was not signed for this place."""
    record = loads_object(raw)
    signature = record.pop(_FIELD, None)
    try:
        wanted = _signature(secret, place, record)
    except RecursionError:
        raise RecordRefused("it is nested too deep") from None
    if not isinstance(signature, str) or not hmac.compare_digest(
        signature.encode("utf-8", "surrogatepass"), wanted.encode("ascii")
    ):
        raise RecordRefused("it is not signed with our RESULT_HMAC_KEY")
    return record


@dataclass(frozen=True)
class SignedRecord:
    """What our programs tell each other, or themselves for later, about one task or question, signed for its id alone. `kind`: the word before that
    id, so that none can be taken for another kind; `most_bytes`: none is larger, written as JSON (unless said otherwise: Redis holds no larger)."""

    kind: ClassVar[str]
    most_bytes: ClassVar[int] = 512 << 20

    def content(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """TypeError if a field is missing; fields that only another version knows are left out."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})

    def to_json(self, secret: str, name: str) -> bytes:
        return sign_record(secret, f"{self.kind} {name}", self.content())

    @classmethod
    def verified(cls, secret: str, name: str, raw: bytes) -> Self:
        """What was signed under this id; RecordRefused for anything else."""
        if len(raw) > cls.most_bytes:
            raise RecordRefused(f"{len(raw)} bytes are too many")
        try:
            return cls.of(signed_record(secret, f"{cls.kind} {name}", raw))
        except TypeError:
            raise RecordRefused("a field is missing: another version of the program has signed it") from None


def secret_in(settings: Settings) -> str:
    """RESULT_HMAC_KEY; "" where there is none: the bot, which must have one, believes nothing that is signed without it."""
    return settings.result_hmac_key.get_secret_value() if settings.result_hmac_key else ""


def _signature(secret: str, place: str, record: dict[str, Any]) -> str:
    own = hashlib.sha256(b"records in Redis\n" + secret.encode()).digest()  # what signs results signs nothing else
    content = json.dumps([place, record], sort_keys=True, ensure_ascii=True)
    return hmac.new(own, content.encode("ascii"), hashlib.sha256).hexdigest()


#: No answer is larger: what Claude may print, written as JSON once more.
RESULT_BYTES = 32 << 20
#: The most buttons in all, and in a row.
BUTTONS_MOST, ROW_MOST = 40, 8
#: The longest label, and the longest command (a bot signs it and has it returned at a press). Characters.
LABEL_CHARACTERS, COMMAND_CHARACTERS = 64, 38

#: What `datetime.now(UTC).isoformat()` writes, on both sides of the wire.
_COMPLETED_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?\+00:00")
_COMMAND = re.compile(r"/[a-z]{1,16}( [\x21-\x7e]+)*\Z")


@dataclass(frozen=True)
class Button:
    """A button below a message. A press does what `command` does as a message of the same person: `/memory forget 3`."""

    label: str
    command: str

    @classmethod
    def parse(cls, value: object) -> Self | None:
        if not isinstance(value, dict):
            return None
        label, command = value.get("label"), value.get("command")
        if not (isinstance(label, str) and label.strip() and isinstance(command, str)):
            return None
        fits = len(command) <= COMMAND_CHARACTERS and _COMMAND.match(command)
        return cls(cut(label, LABEL_CHARACTERS), command) if fits else None


#: Rows of buttons.
Keyboard = tuple[tuple[Button, ...], ...]


def keyboard_of(value: object) -> Keyboard:
    """The rows in a record; what has another form, or is too much, is left out."""
    rows, left = list[tuple[Button, ...]](), BUTTONS_MOST
    for row in value if isinstance(value, list) else []:
        read = [Button.parse(one) for one in row[: min(ROW_MOST, left)]] if isinstance(row, list) else []
        rows.append(tuple(one for one in read if one is not None))
        left -= len(rows[-1])
    return keyboard(*rows)


def keyboard_json(keyboard: Keyboard) -> list[list[dict[str, str]]]:
    return [[{"label": one.label, "command": one.command} for one in row] for row in keyboard]


def row_of(*buttons: tuple[str, str]) -> tuple[Button, ...]:
    """A row of buttons (label, command), without those whose command is too long to come back at a press."""
    return tuple(
        Button(cut(label, LABEL_CHARACTERS), command)
        for label, command in buttons
        if len(command) <= COMMAND_CHARACTERS
    )


def keyboard(*rows: tuple[Button, ...]) -> Keyboard:
    """The rows that have a button."""
    return tuple(row for row in rows if row)


def choice(command: str, values: tuple[str, ...], chosen: str) -> Keyboard:
    """A row of buttons that give a command these values, the chosen one marked."""
    return keyboard(row_of(*((f"✓ {one}" if one == chosen else one, f"/{command} {one}") for one in values)))


def reply_command_of(value: object) -> str:
    """The command in a record; "" for anything else."""
    return value if isinstance(value, str) and len(value) <= COMMAND_CHARACTERS and _COMMAND.fullmatch(value) else ""


@dataclass(frozen=True)
class Result:
    """An answer on its way to the bot, signed so that nobody else with Redis access can speak for us.

    What is signed, `task_id:output:completed_at`, has colons in all its parts, so a signature alone does not say where the answer ends.
    `completed_at` is therefore taken only as `YYYY-MM-DDTHH:MM:SS[.ffffff]+00:00`. No text of that form ends with another one, and a task
    id has no colon, so there is one way at most to split what was signed, whatever the answer ends with.

    `error`: the output says why there is no answer. It stands beside what is signed, like `usage`, and is left out where it is false: whoever can
    write to Redis may change how `hmem talk` ends by it, and never what is shown.

    `reply_command`: a reply of the same person to this message is this command with the reply's text: `/memory edit 3`.
    """

    output: str
    completed_at: str
    signature: str
    usage: dict[str, Any] | None = None
    error: bool = False
    buttons: Keyboard = ()
    reply_command: str = ""
    files: tuple[Media, ...] = ()  # that the bot sends after the answer
    more_signature: str = ""  # of what comes with it: buttons, reply command, files

    @classmethod
    def sign(
        cls,
        key: str,
        task_id: str,
        output: str,
        completed_at: str | None = None,
        usage: dict[str, Any] | None = None,
        **more: Any,
    ) -> Result:
        """`completed_at`: now, if it is not given. `more`: other fields of a result."""
        moment = completed_at or datetime.now(UTC).isoformat()
        made = cls(output, moment, _hmac(key, f"{task_id}:{output}:{moment}"), usage, **more)
        return replace(made, more_signature=made._sign_more(key, task_id)) if made._more() else made

    @classmethod
    def verified(cls, key: str, task_id: str, raw: bytes) -> Result:
        """The result that was signed for this task; RecordRefused for anything else."""
        if len(raw) > RESULT_BYTES:
            raise RecordRefused(f"{len(raw)} bytes are more than any answer has")
        result = cls.parse(raw)
        if not result.verify(key, task_id):
            raise RecordRefused("its signature is wrong")
        if not hmac.compare_digest(result._sign_more(key, task_id), result.more_signature):
            return replace(result, buttons=(), reply_command="", files=())
        return result

    def verify(self, key: str, task_id: str) -> bool:
        """Whether exactly this answer was signed for this task."""
        if not _COMPLETED_AT.fullmatch(self.completed_at):
            return False
        expected = _hmac(key, f"{task_id}:{self.output}:{self.completed_at}")
        return hmac.compare_digest(expected.encode("ascii"), self.signature.encode("utf-8", "surrogatepass"))

    def to_json(self) -> bytes:
        record: dict[str, Any] = {"output": self.output, "completed_at": self.completed_at, "hmac": self.signature}
        more = {"usage": self.usage, "error": self.error, **self._more(), "more_hmac": self.more_signature}
        return dumps(record | {name: value for name, value in more.items() if value})

    def _more(self) -> dict[str, Any]:
        """What comes with the answer, as it is written."""
        more = {
            "buttons": keyboard_json(self.buttons),
            "reply_command": self.reply_command,
            "files": [one.to_json() for one in self.files],
        }
        return {name: value for name, value in more.items() if value}

    def _sign_more(self, key: str, task_id: str) -> str:
        """JSON ends where its bracket ends, so there is one way to read what is signed."""
        return _hmac(key, f"more:{task_id}:{json.dumps(self._more())}")

    @classmethod
    def parse(cls, raw: bytes) -> Result:
        record = loads_object(raw)
        usage, signed = record.get("usage"), record.get("more_hmac")
        return cls(
            text_of(record, "output"),
            text_of(record, "completed_at"),
            text_of(record, "hmac"),
            usage if isinstance(usage, dict) else None,
            record.get("error") is True,
            keyboard_of(record.get("buttons")),
            reply_command_of(record.get("reply_command")),
            media_of({"media": record.get("files")})[:MEDIA_MOST],
            signed if isinstance(signed, str) and signed.isascii() else "",
        )


def _hmac(key: str, message: str) -> str:
    return hmac.new(key.encode("utf-8"), message.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


# ── A partial answer, as it crosses the wire while Claude writes: what is to be shown until the result is there.


#: The most of an answer that is shown while it is written: its end. Characters.
TEXT_CHARACTERS = 16_000
#: The longest name of a tool. Characters.
TOOL_CHARACTERS = 80
#: No partial answer is larger, written as JSON (a character takes up to 12 bytes there). Bytes.
PARTIAL_BYTES = 12 * TEXT_CHARACTERS + 4_096

Doing = Literal["thinking", "writing", "tool", "retrying"]


@dataclass(frozen=True)
class PartialAnswer(SignedRecord):
    """`number` grows with each one of a task, across dispatchers too: an older one is never shown after a newer one. `chat_id`: for `hmem forget`."""

    kind = "partial"
    most_bytes = PARTIAL_BYTES
    chat_id: str
    number: int
    text: str
    doing: Doing = "writing"
    tool: str = ""


# ── The secret that results are signed with: it must be set, must not be a placeholder, and must be hard to guess.


#: Characters of the shortest one that is taken; `openssl rand -hex 32` gives 64.
SHORTEST = 16
#: Different characters that a secret has at least: `xxxxxxxxxxxxxxxx` is none.
_FEWEST = 6
#: What stands in examples, ours (docs/install.md, deploy/hmem.toml) and others', in place of a secret.
_PLACEHOLDER = re.compile(
    r"that your bot verifies|openssl rand|hex digits|placeholder|change[ _-]?(me|this|it)\b|<.*>|\$\{|\.\.\."
    r"|\byour[ _-](\w+[ _-])?(secret|key|password)|(secret|key|password)[ _-](goes[ _-])?here",
    re.IGNORECASE,
)
_FIX = "Set the key that your bot has; openssl rand -hex 32 makes a new one for both, and hmem init does all of this."


def signing_key(settings: Settings, without: str) -> str:
    """The secret. SettingsError if there is none, saying what that means (`without`, the middle of a sentence), or if it must not be used."""
    if settings.result_hmac_key is None:
        raise SettingsError(f"RESULT_HMAC_KEY is not set, so {without}. {_FIX}")
    secret = settings.result_hmac_key.get_secret_value()
    if _PLACEHOLDER.search(secret):
        raise SettingsError(
            f"RESULT_HMAC_KEY is the placeholder of an example, so anyone who has read it could sign answers. {_FIX}"
        )
    if len(secret) < SHORTEST or len(set(secret)) < _FEWEST:
        raise SettingsError(
            f"RESULT_HMAC_KEY is too easy to guess: it needs {SHORTEST} characters or more, and {_FEWEST} different ones. {_FIX}"
        )
    return secret
