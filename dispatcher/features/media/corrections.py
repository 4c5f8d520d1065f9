"""What was misheard is corrected by a reply: the turn of the recording is written anew, under its id, with the words of the reply.

The bot knows which message is replied to and passes its task on as `corrects`. It counts only for a recording of the same chat and person that is
remembered (in Redis, else in the day store) and not forgotten. The new version goes to the day store and, by night, to the archive.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from redis.asyncio import Redis

from dispatcher.answering.commands.again import earlier_message
from dispatcher.memory.day.memory import DayMemory
from dispatcher.prompt.render import fenced
from dispatcher.queue.chats import ChatRecords
from shared.errors import HmemError
from shared.turns.media import HEARD
from shared.turns.records import CORRECTED, Task, Turn


class Corrections:
    """One per dispatcher."""

    def __init__(self, client: Redis, day: DayMemory) -> None:
        self._records, self._day = ChatRecords(client), day

    async def of(self, task: Task) -> Turn | None:
        """The turn that this message corrects, as it was."""
        if task.corrects is None or task.media or not task.message.strip():
            return None
        turn = None
        with suppress(HmemError):
            turn = await earlier_message(self._records, self._day, task.chat_id, task.corrects)
        if turn is None or turn.user_id != task.user_id or task.user_id is None:
            return None
        return turn if any(one.kind in HEARD for one in turn.media) else None


def corrected(turn: Turn, text: str) -> Turn:
    """The turn with these words in the place of what was heard."""
    heard = [one for one in turn.media if one.kind in HEARD]
    media = [replace(one, text=text if one is heard[0] else "") if one in heard else one for one in turn.media]
    extra = turn.extra | {"media": [one.to_json() for one in media], CORRECTED: True}
    return replace(turn, content=text, extra=extra)


def header_line(turn: Turn) -> str:
    """For Claude: what had been heard instead."""
    return f"This corrects a recording of the sender. A program had understood:\n{fenced('transcript', turn.content)}"
