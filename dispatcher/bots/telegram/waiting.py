"""What the bot notes in Redis of a delivery, and of a message that it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from shared.turns.records import dumps, loads_object


@dataclass(frozen=True)
class Waiting:
    """A delivery. `at` is when it began (POSIX seconds); `text` is one of the bot's own messages, None while an answer is awaited."""

    chat: str  # text, as a Lua number would lose digits
    at: float
    thread: int | None = None
    reply_to: int | None = None
    placeholder: int | None = None  # message that the answer will replace; NO_ID if it was sent and has no known id
    warned: bool | None = None  # the placeholder says that an unsigned result came
    unattended: bool | None = None  # the placeholder says that no dispatcher is running
    parts_sent: int = 0
    files_sent: int | None = None
    text: str | None = None
    moved: str | None = None  # chat that the group has become
    user: str | None = None  # who asked, as the task has it
    buttons: list[list[dict[str, str]]] | None = None  # below the text (results.py)
    row: int | None = None  # message that was sent last, with the buttons
    language: str | None = None  # of the notices that are sent meanwhile
    command: bool | None = None  # answered at once: its placeholder has no button to stop it
    digest: bool | None = None  # the text repeats what was said: `hmem forget` removes it whole

    @property
    def target(self) -> int:
        return int(self.moved or self.chat)

    def to_json(self) -> bytes:
        return dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def parse(cls, raw: bytes) -> Waiting:
        """RecordRefused, TypeError or ValueError for a record that this program did not write."""
        known = {one.name for one in fields(cls)}  # a later version may have written more
        made = cls(**{name: value for name, value in loads_object(raw).items() if name in known})
        float(made.at)
        int(made.parts_sent)
        _ = made.target
        return made


@dataclass(frozen=True)
class Mark:
    """What is known of a message whose task was taken, for later edits. Stored for two days."""

    task: str
    digest: str
    told: bool = False  # the chat knows that the earlier text counts
    user: str | None = None  # under an answer that shows what was heard: who had said it

    def to_json(self) -> bytes:
        return dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def parse(cls, raw: bytes) -> Mark:
        return cls(**loads_object(raw))
