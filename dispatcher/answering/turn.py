"""A message in progress: one object that is begun in Redis, enriched by hooks, answered by Claude, and finished once by `finish.lua`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.claude.reply import Answer
from dispatcher.memory.typed.tags import Parsed, new_code
from dispatcher.prompt.context import Context
from dispatcher.queue.cancellation import Run
from shared.turns.media import Media
from shared.turns.records import Task, Tombstone, Turn

if TYPE_CHECKING:
    from dispatcher.queue.tasks import Begun


@dataclass(frozen=True)
class ForQuestion:
    """What a feature adds to a question before Claude is asked.

    `message`: words in the place of the message's; `media`: the files of the message with what is remembered of them; `blocks`: content ahead of the
    message, as the Messages API has it; `lines`: for the message's header; `rules`: what Claude is told where tags are carried out; `above`: what
    stands above the answer, in Markdown; `refusal`: why nothing can be answered, as a sentence for the chat; `corrected`: an earlier turn that is
    written anew.
    """

    message: str | None = None
    media: tuple[Media, ...] | None = None
    blocks: Sequence[dict[str, Any]] = ()
    lines: Sequence[str] = ()
    rules: Sequence[str] = ()
    above: Sequence[str] = ()
    refusal: str = ""
    corrected: Turn | None = None


@dataclass(frozen=True)
class ForAnswer:
    """What a feature adds to an answer. `below`: sentences below it; `files`: what the bot is to send with it; `media`: the files of the question
    with what is remembered of them."""

    below: Sequence[str] = ()
    files: tuple[Media, ...] = ()
    media: tuple[Media, ...] | None = None


@dataclass(frozen=True)
class ForClaude:
    """What one call of Claude has in addition: files for `--mcp-config`, permissions, and the tool that decides about tools that are asked for."""

    mcp_config_files: tuple[Path, ...] = ()
    more_tools: tuple[str, ...] = ()
    approver: str = ""


@dataclass
class TurnInProgress:
    """Fields are set from top to bottom. `task` is the task of the queue, which is the one that is finished; times are POSIX seconds."""

    task: Task
    claimed_at: float
    run: Run
    tombstones: Sequence[Tombstone]  # the chat's
    asked: Task  # what Claude is asked: with /retry an earlier message, with a recording its words
    begun: Begun = field(init=False)
    unread: Task | None = None  # `asked` before features read it

    # What goes to Claude.
    code: str = field(default_factory=new_code)  # only tags with it are orders
    blocks: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    refusal: str = ""
    context: Context = field(default_factory=lambda: Context(""))

    # What came back.
    answer: Answer = field(init=False)
    answered_at: float = field(init=False)
    session: str = ""  # to continue, "" for none
    listed: bool = False  # whether Claude has read the list of memories, with their numbers, by a tool
    tags: Parsed = field(init=False)  # of the answer

    # What the chat gets beside the answer, and what is stored with it.
    above: list[str] = field(default_factory=list)
    said: str = ""  # the answer as it is stored
    shown: str = ""  # and as it is sent
    below: list[str] = field(default_factory=list)
    files: tuple[Media, ...] = ()
    corrected: Turn | None = None
    notes: dict[str, Any] = field(default_factory=dict)  # what a feature notes in one hook for a later one
    later_tags: bytes = b""  # tags that could not be carried out now
    forgot: bool = False  # the answer's tags had something forgotten
    unmet: bool = False  # they were to, and no memory is like it

    def prepare(self, found: ForQuestion) -> None:
        """Take over what a feature adds to the question."""
        self.unread = self.unread or self.asked
        if found.message is not None:
            self._replace(message=found.message)
        self._remember(found.media)
        self.blocks += found.blocks
        self.lines += found.lines
        self.rules += found.rules
        self.above += found.above
        self.refusal = self.refusal or found.refusal
        self.corrected = found.corrected or self.corrected

    def add(self, found: ForAnswer) -> None:
        """Take over what a feature adds to the answer."""
        self._remember(found.media)
        self.below += found.below
        self.files += found.files

    def _remember(self, media: tuple[Media, ...] | None) -> None:
        if media is not None and media != self.asked.media:
            self._replace(media=media)

    def _replace(self, **changes: Any) -> None:
        """With what is kept of lone surrogates, which a copy loses."""
        said = {name: text for name, text in self.asked.as_said.items() if name not in changes}
        self.asked = replace(self.asked, **changes)
        self.asked.as_said.update(said)

    @property
    def unanswered(self) -> Task:
        """What is stored of a message without an answer: as it came, without what features have read in its files."""
        return self.unread or self.asked
