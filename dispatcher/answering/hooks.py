"""What features add to the answering of a message, in the order in which it happens (shared/hooks.py)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.hooks import specification

if TYPE_CHECKING:
    from pathlib import Path

    from redis import Redis
    from redis.asyncio import Redis as AsyncRedis

    from dispatcher.answering.commands.command import Handler
    from dispatcher.answering.results import ResultBuilder
    from dispatcher.answering.turn import ForAnswer, ForClaude, ForQuestion, TurnInProgress
    from dispatcher.claude.client import ClaudeCli
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.prompt.context import Context
    from dispatcher.queue.rights import Rights
    from dispatcher.queue.tasks import Counters, Finished, TaskQueue
    from dispatcher.releases.served import ServedRelease
    from shared.config.settings import Settings
    from shared.config.tools import ChatTools
    from shared.turns.records import Task, Turn


#: How a task may end.
OUTCOMES = ("answered", "error", "refused", "cancelled", "dead_lettered", "declined", "repeated")


@dataclass(frozen=True)
class Core:
    """What a dispatcher has. `redis` is its own connection, `background` one for threads; `served` is the release that is read."""

    settings: Settings
    redis: AsyncRedis
    background: Redis
    queue: TaskQueue
    day: DayMemory
    served: ServedRelease
    rights: Rights
    results: ResultBuilder
    claude: ClaudeCli

    @property
    def remembers(self) -> bool:
        """Whether memories are stored at all."""
        return self.day.wanted and self.settings.memory_tokens > 0


@specification(fails="closed")
def dispatcher(core: Core) -> object | None:
    """The feature's part of a dispatcher, made once at its start: an object whose methods implement the hooks below. An error ends the start."""


@specification(fails="closed")
def chat_commands() -> Mapping[str, Handler] | None:
    """Name of a command without its slash → what carries it out. Called once."""


@specification(fails="closed")
def memory_chat_commands() -> Mapping[str, Handler] | None:
    """Word after `/memory` → what carries it out. Called once."""


@specification(fails="open")
def instructions() -> str | None:
    """A part of the system prompt of each message. Called once."""


@specification(fails="closed")
async def decline(task: Task, now: float) -> str | None:
    """Before Claude is asked: why this message is not answered, as a sentence for the chat. It is stored all the same; `now` in POSIX seconds."""


@specification(fails="open")
async def prepare(turn: TurnInProgress) -> ForQuestion | None:
    """Before Claude is asked: what the feature adds to the question. Ended if the message is cancelled."""


@specification(fails="closed")
def beside_claude(
    turn: TurnInProgress, session: str, tools: ChatTools, folder: Path
) -> AbstractAsyncContextManager[ForClaude] | None:
    """What runs while Claude writes, in this session and with these tools; `folder` is private. If it raises,
    Claude is not asked, and the chat is told; what the answer can do without is for the feature to catch."""


@specification(fails="open")
async def answered(turn: TurnInProgress) -> ForAnswer | None:
    """Claude has answered, and nothing is stored yet: what the feature adds to the answer. After a crash it is called again for the task."""


@specification(fails="open")
async def fields(turn: Turn) -> Mapping[str, object] | None:
    """Fields that are stored with a turn. It may be called again for the same turn, after a crash."""


@specification(fails="open")
def counters(finished: Finished) -> Sequence[Counters] | None:
    """Counters that rise with a finished message, in the one transaction that finishes it."""


@specification(fails="open")
def context_composed(context: Context) -> None:
    """What memory adds to a message was put together; called in a thread."""


@specification(fails="open")
def claude_called(seconds: float, model: str | None, failed: bool, unpaid: bool) -> None:
    """One call of the Claude CLI has ended; `model` as the task names it; `failed`: with an error in place of an answer;
    `unpaid`: because the account does not pay for the request."""


@specification(fails="open")
def claude_used(settings: Settings, client: Redis, chat_id: str, usage: Mapping[str, Any]) -> None:
    """Claude has written something beside the messages, about this chat ("": it is not known which); `usage` as `Answer.usage` has it. Called in a
    thread, of the feature and not of its part."""


@specification(fails="open")
def message_finished(outcome: str, seconds: float, usage: Mapping[str, float]) -> None:
    """A task has ended, `seconds` after it was claimed, with one of OUTCOMES; `usage`: tokens and cost, as `Answer.usage` has them."""


@specification(fails="open")
def background() -> Coroutine[None, None, None] | None:
    """What runs while the dispatcher does, until it is cancelled."""


@specification(fails="open")
def dispatcher_stopping() -> None:
    """No more tasks are taken; running ones have TASK_TIMEOUT to end."""


@specification(fails="open")
def dispatcher_stopped() -> None:
    """The dispatcher ends: close what the part holds open."""
