"""This feature's part of a dispatcher: when no message waits, it asks Claude what the night wants to know, and carries out what nights have found.

One thing at a time, and one dispatcher of several. While Claude gives errors it is asked less and less often, and a dream that gets MOST_TRIES of
them is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import orjson

from dispatcher.answering.commands.command import Handler
from dispatcher.answering.hooks import Core, claude_used
from dispatcher.answering.retry import look_again
from dispatcher.features.dream import keys as own
from dispatcher.features.dream.records import Carried, WritingRequest, note_result, parse, result_field
from dispatcher.queue.scripts import script_text
from shared.errors import HmemError
from shared.hooks import features, hook
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.turns.note_changes import Dream
from shared.wire import keys

if TYPE_CHECKING:
    from dispatcher.answering.commands.command import CommandReply
    from dispatcher.features.dream.putting_in_order import Dreaming
    from shared.turns.records import Task

log = Logger()

#: Seconds from one look to the next, and after one that failed; the latter doubles while Claude gives errors, up to LONGEST_PAUSE.
LOOK_SECONDS, PAUSE_SECONDS, LONGEST_PAUSE = 3.0, 60.0, 4 * 3_600.0
#: Seconds after which a dream does not wait any more for its night's release, which may have been refused.
AT_LATEST_SECONDS = 6 * 3_600.0
#: How often one request is tried.
MOST_TRIES = 5

Todo = Callable[[], Awaitable[None]]


class DreamPart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._core, self._redis = core, cast(Any, core.redis)
        self._answered = core.redis.register_script(script_text("features/dream/answered"))
        self._failures, self._asks_again_at = 0, 0.0  # of Claude, one after the other; time.monotonic()

    @cached_property
    def _dreaming(self) -> Dreaming:
        """Loaded late: most installations have no WRITER."""
        from dispatcher.features.dream.putting_in_order import Dreaming

        return Dreaming(self._core.day)

    @hook
    def memory_chat_commands(self) -> Mapping[str, Handler]:
        return {"changes": self}

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        """`/memory changes`."""
        from dispatcher.features.dream.changes import reply

        return await asyncio.to_thread(reply, self._core, self._dreaming, task, text)

    @hook
    async def background(self) -> None:
        """The looks, for ever."""
        await look_again("what the night wants of this host", self._look, PAUSE_SECONDS)

    async def _look(self) -> float:
        """Do one thing, if there is one and no message waits; the seconds until the next look."""
        if await self._redis.llen(keys.TASKS) or await self._redis.hlen(keys.BUSY):
            return LOOK_SECONDS
        todo = await self._next()
        if todo is not None and await self._takes_turn():
            try:
                await todo()
            finally:
                if await self._redis.get(own.TURN) == self._me:
                    await self._redis.delete(own.TURN)
        return LOOK_SECONDS

    @property
    def _me(self) -> bytes:
        return self._core.queue.worker.encode()

    async def _takes_turn(self) -> bool:
        """Whether no other dispatcher that lives does something for the night."""
        holder = await self._redis.get(own.TURN)
        if holder and (
            holder == self._me or not await self._redis.exists(keys.lease(holder.decode("utf-8", "replace")))
        ):
            await self._redis.delete(own.TURN)  # of one that died
        return bool(await self._redis.set(own.TURN, self._me, nx=True, ex=own.TURN_TTL_SECONDS))

    async def _next(self) -> Todo | None:
        """A request, then a dream: one that waits for Claude, or has its answer. What is too old or cannot be used is dropped."""
        asks = time.monotonic() >= self._asks_again_at
        for name, raw in (await self._redis.hgetall(keys.ASKED)).items() if asks else ():
            request = parse(WritingRequest, raw)
            if request and request.prompt and time.time() - request.at < keys.WRITING_TTL_SECONDS:
                return partial(self._write, name, request)
            await self._redis.hdel(keys.ASKED, name)
        for name in sorted(await self._redis.hkeys(keys.DREAMS)) if self._core.day.wanted else ():
            raw = await self._redis.hget(keys.DREAMS, name) or b""
            dream = parse(Dream, raw)
            if dream is None or await self._is_over(dream):
                log.info(
                    "a night's changes are dropped: they are old, or something of the chat was forgotten since",
                    name=name,
                )
                await self._redis.hdel(keys.DREAMS, name)
            elif not self._may_begin(dream):
                continue
            elif dream.answer:
                return partial(self._carry_out, name, raw, dream)
            elif asks:
                return partial(self._dream, name, dream)
        return None

    def _may_begin(self, dream: Dream) -> bool:
        """Once the release of its night is served, since that may have its messages alone (an import); hours later in any case."""
        return (self._core.served.served_run or 0) >= dream.run or time.time() - dream.at > AT_LATEST_SECONDS

    async def _is_over(self, dream: Dream) -> bool:
        """Whether it was carried out before, is too old, or may have words of what was forgotten."""
        if time.time() - dream.at > keys.DREAMS_TTL_SECONDS or await self._redis.hexists(
            own.DREAMT, result_field(dream)
        ):
            return True
        return await asyncio.to_thread(self._dreaming.is_outdated, dream)

    async def _write(self, name: bytes, request: WritingRequest) -> None:
        """Ask Claude for the night, and leave its answer; answers that no night has fetched go after their time."""
        written = await self._asked(request.prompt, request.model) | {"at": time.time()}
        await self._answered(keys=[keys.ASKED, keys.WRITTEN], args=[name, orjson.dumps(written)])
        await self._redis.expire(keys.WRITTEN, keys.WRITING_TTL_SECONDS)
        for old, raw in (await self._redis.hgetall(keys.WRITTEN)).items():
            if not (answer := parse(WritingRequest, raw)) or time.time() - answer.at > keys.WRITING_TTL_SECONDS:
                await self._redis.hdel(keys.WRITTEN, old)

    async def _dream(self, name: bytes, dream: Dream) -> None:
        written = await self._asked(dream.prompt, dream.model, dream.chat_id)
        if "text" in written:
            dream.prompt, dream.answer = "", written["text"] or "-"
        else:
            dream.tries += 1
        if dream.tries >= MOST_TRIES:
            log.error("Claude gave errors only, so a chat's memories stay as they are", run=dream.run)
            await self._redis.hdel(keys.DREAMS, name)
            return
        await self._answered(keys=[keys.DREAMS, keys.DREAMS], args=[name, dream.model_dump_json()])

    async def _asked(self, prompt: str, model: str, chat_id: str = "") -> dict[str, str]:
        """{text} or {error}."""
        answer, core = await self._core.claude.ask_alone(prompt, model), self._core
        await asyncio.to_thread(
            lambda: features().ask(
                claude_used, settings=core.settings, client=core.background, chat_id=chat_id, usage=answer.usage
            )
        )
        if answer.error is None:
            self._failures = 0
            return {"text": answer.text}
        self._asks_again_at = time.monotonic() + min(LONGEST_PAUSE, PAUSE_SECONDS * 2**self._failures)
        self._failures += 1
        log.warning("Claude wrote nothing for the night", reason=str(answer.error))
        return {"error": str(answer.error)}

    async def _carry_out(self, name: bytes, raw: bytes, dream: Dream) -> None:
        """Carry out the changes, or offer them where the owner decides. Whatever is wrong with them, the next ones come."""
        try:
            carried, offered = await asyncio.to_thread(self._judge, dream)
        except HmemError:
            raise
        except Exception:  # a defect of ours
            log.exception("a night's changes are dropped", run=dream.run)
            carried, offered = Carried(), False
        if offered:
            await self._answered(keys=[keys.DREAMS, own.PROPOSED], args=[name, raw])
        await asyncio.to_thread(note_result, self._core.background, dream, carried)
        crash_point("dream:carried-out")
        await self._redis.hdel(keys.DREAMS, name)
        log.info(
            "memories were put in order",
            run=dream.run,
            changed=carried.changed,
            proposed=carried.proposed,
            refused=carried.refused.total(),
        )

    def _judge(self, dream: Dream) -> tuple[Carried, bool]:
        if not dream.propose:
            return self._dreaming.carry_out(dream), False
        offered, refused = self._dreaming.undecided(dream)
        return Carried(proposed=len(offered), refused=refused), bool(offered)
