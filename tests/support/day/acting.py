"""A dispatcher that acts on tags, without its process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.actions import Actions
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories
from dispatcher.memory.tombstones import Forgotten
from dispatcher.memory.typed.acting_on_tags import TagActing
from dispatcher.memory.typed.memories import Remembering
from dispatcher.memory.typed.tags import AnswerTags, parse
from shared.turns.records import Task, Tombstone

NOW = 1_800_000_000.0  # Friday 15 January 2027, 08:00 UTC
DAY = 86_400.0
BERLIN = ZoneInfo("Europe/Berlin")


SAID = "9912"


class Dies(BaseException):
    """The process ends here."""


class Mortal(Forgotten):
    """A filter whose process dies right after (or before) a tombstone is durable."""

    dies: str = ""

    def add(self, stone: Tombstone) -> None:
        if self.dies == "before":
            raise Dies
        super().add(stone)
        if self.dies == "after":
            raise Dies


@dataclass
class Host:
    """A dispatcher's hands on a chat, on a real store; `repeats` are turns that say a memory again."""

    root: Path
    embedder: DayEmbedder
    repeats: dict[str, list[str]] = field(default_factory=dict)
    given: Database | None = None

    def __post_init__(self) -> None:
        self.database = self.given or Database(None, self.root / "state")
        self.memories, self.actions = Memories(self.database), Actions(self.database)
        self.forgotten = Mortal(self.root / "state")
        self.kept = Remembering(self.memories, self.embedder, self.forgotten)
        parts = (self.memories, self.actions, self.kept, self.forgotten)
        self.acting = TagActing(*parts, lambda _: BERLIN, lambda chat, text: self.repeats.get(text, []))

    def answer(
        self, text: str, task: str = "t1", chat: str = SAID, now: float = NOW, shown: frozenset[int] | None = None
    ) -> list[str]:
        """Act on an answer; what is said. `shown`: the numbers that the model had before it, None for all of the chat's."""
        shown = frozenset(one.number for one in self.memories.list(chat)) if shown is None else shown
        asked, tags = Task(task, chat, "hello"), parse(text, "CODE").tags
        return self.acting.on_tags(AnswerTags(asked, "session-1", tags, now, shown=shown)).sentences

    def texts(self, chat: str = SAID) -> list[tuple[str, str]]:
        return [(str(memory.type), memory.text) for memory in self.kept.of_chat(chat).memories]
