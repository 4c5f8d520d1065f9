"""This feature's part of a dispatcher: each minute, in the background, it looks what the owner and the chats are to be told.

Alarms, the morning report, the heartbeat and the digests are looked at each by itself, in threads: one that fails is tried again by its next look and
stops neither the others nor the answers. Without REPORT_CHAT an alarm is a line of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime, timedelta
from datetime import time as clock
from functools import partial
from typing import cast

import redis
from redis.asyncio import Redis as AsyncRedis

from dispatcher.answering.commands.command import CommandReply, Handler
from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import look_again
from dispatcher.features.digest import keys as own
from dispatcher.features.digest.checks import running_since
from dispatcher.features.digest.outgoing import Outgoing, due
from dispatcher.features.digest.settings import DigestSettings, report_due
from dispatcher.health.checks.host import our_directories
from dispatcher.health.findings import Setup
from dispatcher.health.hooks import morning_line
from dispatcher.health.nights import nights_of, records_of
from shared.hooks import features, hook
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.records import Task
from shared.turns.signed import choice

log = Logger()

#: Seconds that noting whether Claude answered may take.
NOTE_SECONDS = 2.0
#: Seconds from the start to the first look, and from one look to the next.
FIRST_SECONDS = 15.0
LOOK_SECONDS = 60.0

DIGEST_ON = later(
    "The digest is on: each morning at {at} I send what was said here yesterday, the goals that are due, and what is new in my memory. "
    "On days with nothing to say I send nothing. /digest off ends it."
)
SWITCHING = later("In a group only an owner may switch the digest on or off.")
DIGEST_OFF = later("The digest is off. With /digest on I send each morning at {at} what was said here yesterday.")


class DigestPart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._core, self._settings, self._own = core, core.settings, core.settings.of(DigestSettings)
        self._stopping = False
        self._noting: set[asyncio.Task[None]] = set()  # a task that nobody holds may be collected while it runs

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        return {"digest": self}

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        """`/digest`. Switched on, the first one comes at the next REPORT_AT; switching on twice changes nothing."""
        chat, wanted = task.chat_id, text.strip().lower()
        redis, zone = self._core.redis, self._settings.timezone
        refusal = self._core.rights.refusal(SWITCHING, task.in_group, task.user_id)
        if refusal and wanted:
            return CommandReply(refusal, error=True)
        if wanted not in ("", "on", "off"):
            return CommandReply(tr("Write /digest on or /digest off, or /digest to see which it is."), error=True)
        if wanted == "on":
            here = datetime.fromtimestamp(now, zone)
            over = here.time() >= clock.fromisoformat(self._own.report_at)
            last = here.date() - timedelta(days=0 if over else 1)
            await redis.hsetnx(own.DIGESTS, chat, str(last))
        elif wanted == "off":
            await redis.hdel(own.DIGESTS, chat)
        on = await cast(Awaitable[bytes | None], redis.hget(own.DIGESTS, chat)) is not None
        said = tr(DIGEST_ON if on else DIGEST_OFF).format(at=f"{self._own.report_at} ({zone.key})")
        return CommandReply(said, buttons=() if refusal else choice("digest", ("on", "off"), "on" if on else "off"))

    @hook
    def claude_called(self, failed: bool, unpaid: bool) -> None:
        """The answer does not wait for the note."""
        noting = asyncio.create_task(note_outcome(self._core.redis, failed=failed, unpaid=unpaid))
        self._noting.add(noting)
        noting.add_done_callback(self._noting.discard)

    @hook
    async def background(self) -> None:
        """The looks, for ever."""
        await asyncio.sleep(FIRST_SECONDS)
        tells = await asyncio.to_thread(self.tells)
        looks = {
            name: partial(_look, tell, Setup(self._settings, self._core.background)) for name, tell in tells.items()
        }
        await asyncio.gather(*(look_again(name, look, LOOK_SECONDS) for name, look in looks.items()))

    def tells(self) -> dict[str, Callable[[Setup], object]]:
        """What looks whether something is to be told, and tells it. RedisError if Redis does not answer."""
        from dispatcher.features.digest.alarms import send_alarms
        from dispatcher.features.digest.digest import send_digests
        from dispatcher.features.digest.heartbeat import beat

        tells: dict[str, Callable[[Setup], object]] = {"alarms": send_alarms, "report": send_report, "heartbeat": beat}
        if self._core.day.wanted:
            served = self._core.served
            tells["digests"] = partial(send_digests, self._core.day, served.reading, lambda: self._stopping)
        return tells

    @hook
    def dispatcher_stopping(self) -> None:
        """No further digest is begun."""
        self._stopping = True


async def _look(tell: Callable[[Setup], object], setup: Setup) -> float:
    await asyncio.to_thread(tell, setup)
    return LOOK_SECONDS


async def note_outcome(client: AsyncRedis, *, failed: bool, unpaid: bool = False) -> None:
    """Note an answer, or an error in its place. It raises nothing: an alarm is worth less than an answer."""
    try:
        async with asyncio.timeout(NOTE_SECONDS):
            now = f"{time.time():.3f}"
            if unpaid:  # the next try may be answered, without memory
                await client.hset(own.CLAUDE_ERRORS, "unpaid", now)
            if not failed:
                await client.hdel(own.CLAUDE_ERRORS, "first", "last")
                return
            await client.hsetnx(own.CLAUDE_ERRORS, "first", now)
            await client.hset(own.CLAUDE_ERRORS, "last", now)
    except (redis.RedisError, TimeoutError) as error:
        log.warning("whether Claude answers cannot be noted", error=str(error) or "no answer")


def send_report(setup: Setup) -> bool:
    """Send today's morning report if there is a REPORT_CHAT, it is time, this host ran by then, and it was not sent yet; whether it was."""
    settings, now, outgoing = setup.settings, setup.now(), Outgoing(setup.redis, setup.settings)
    day = datetime.fromtimestamp(now, settings.timezone).date()
    chat, at = settings.of(DigestSettings).report_chat, report_due(settings, day)
    began = running_since(settings.hmem_state_dir)
    if not chat or now < at or began > at or not due(outgoing.noted("report"), day):
        return False
    from dispatcher.features.digest.alarms import problems
    from dispatcher.features.digest.report import Morning, report_text

    told, client, good = outgoing.noted("report-run"), setup.redis, nights_of(setup.redis).good
    morning = Morning(
        now,
        settings.timezone,
        records_of(client),
        good,
        int(told) if told.isdecimal() else None,
        min(_free_bytes(setup), default=None),
        problems(setup),
        features().ask(morning_line, client=client, run=good[0]) if good else (),
    )
    commands = [command for _, command in morning.told_by_features]
    return outgoing.report(chat, report_text(morning), day, now, morning.newest_run, commands)


def _free_bytes(setup: Setup) -> Iterator[int]:
    """On the disks of our directories, except unreadable ones."""
    for path in our_directories(setup.settings):
        with contextlib.suppress(OSError):
            yield setup.disk_usage(path).free
