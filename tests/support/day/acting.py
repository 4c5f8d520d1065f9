"""A dispatcher that acts on tags, without its process."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from zoneinfo import ZoneInfo

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.database import Database
from dispatcher.memory.tombstones import Forgotten
from dispatcher.memory.typed.tags import AnswerTags, parse
from shared.config.settings import load_settings
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


class Host(DayMemory):
    """A dispatcher's hands on a chat, on a real store; `repeats` are turns that say a memory again."""

    forgotten: Mortal

    def __init__(self, root: Path, embedder: DayEmbedder, given: Database | None = None) -> None:
        super().__init__(load_settings(hmem_state_dir=root / "state"), nullcontext)
        self.root, self.embedder, self.repeats = root, embedder, dict[str, list[str]]()
        self.forgotten = Mortal(root / "state")
        self.zone_of = lambda _: BERLIN
        if given:
            self.database = given

    def repeating(self, chat_id: str, text: str) -> list[str]:
        return self.repeats.get(text, [])

    def answer(
        self, text: str, task: str = "t1", chat: str = SAID, now: float = NOW, shown: frozenset[int] | None = None
    ) -> list[str]:
        """Act on an answer; what is said. `shown`: the numbers that the model had before it, None for all of the chat's."""
        shown = frozenset(one.number for one in self.memories.list(chat)) if shown is None else shown
        asked, tags = Task(task, chat, "hello"), parse(text, "CODE").tags
        return self.acting.on_tags(AnswerTags(asked, "session-1", tags, now, shown=shown)).sentences

    def texts(self, chat: str = SAID) -> list[tuple[str, str]]:
        return [(str(memory.type), memory.text) for memory in self.remembering.of_chat(chat).memories]
