"""This feature's part of a dispatcher: when no message waits, it asks Claude what the night wants to know, and carries out what nights have found.

One thing at a time, and one dispatcher of several. What fails is tried again later; the requests expire.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

import orjson
import redis
import structlog

from dispatcher.answering.commands.command import Handler
from dispatcher.answering.hooks import Core, claude_used
from dispatcher.features.dream import keys as own
from dispatcher.features.dream.putting_in_order import Carried, Dreaming
from dispatcher.features.dream.records import note_result, parse_dream
from dispatcher.queue.scripts import script_text
from shared.errors import HmemError
from shared.hooks import features, hook
from shared.system.faults import crash_point
from shared.wire import keys

log = structlog.get_logger()

#: Seconds from one look to the next, and after one that failed.
LOOK_SECONDS, PAUSE_SECONDS = 3.0, 60.0


class DreamPart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._core, self._redis = core, cast(Any, core.redis)
        self._dreaming = Dreaming(core.day)
        self._answered = core.redis.register_script(script_text("features/dream/answered"))
        self._failed: dict[bytes, float] = {}  # name of what failed → when
        self._offered: set[bytes] = set()  # names of dreams about which the owner decides

    @hook
    def memory_chat_commands(self) -> Mapping[str, Handler]:
        from dispatcher.features.dream.chat_command import ChangesCommand

        return {"changes": ChangesCommand(self._core, self._dreaming)}

    @hook
    async def background(self) -> None:
        """The looks, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except (redis.RedisError, HmemError, OSError) as error:
                log.warning("what the night wants of this host must wait", reason=str(error))
                await asyncio.sleep(PAUSE_SECONDS)

    async def look(self) -> None:
        """Do one thing, if there is one and no message waits."""
        if await self._redis.llen(keys.TASKS) or await self._redis.hlen(keys.BUSY):
            return
        todo = await self._next()
        if todo is None or not await self._takes_turn():
            return
        try:
            await todo()
        finally:
            await self._redis.delete(own.TURN)

    async def _takes_turn(self) -> bool:
        """Whether no other dispatcher that lives does something for the night."""
        me = self._core.queue.worker
        holder = await self._redis.get(own.TURN)
        if holder and holder != me.encode() and await self._redis.exists(keys.lease(holder.decode("utf-8", "replace"))):
            return False
        await self._redis.set(own.TURN, me, ex=own.TURN_TTL_SECONDS)
        return bool(await self._redis.get(own.TURN) == me.encode())

    async def _next(self) -> Callable[[], Awaitable[None]] | None:
        """A request, then a dream that waits for Claude, then one that has its answer."""
        for name, raw in (await self._redis.hgetall(keys.ASKED)).items():
            if self._may(name):
                return partial(self._write, name, orjson.loads(raw))
        for name in sorted({*await self._redis.hkeys(keys.DREAMS)} - self._offered):
            raw = await self._redis.hget(keys.DREAMS, name) or b"null"
            record = orjson.loads(raw)
            if parse_dream(raw) is None or time.time() - float(record["at"]) > keys.DREAMS_TTL_SECONDS:
                log.warning("what a night left cannot be used and is dropped", name=name)
                await self._redis.hdel(keys.DREAMS, name)
            elif record.get("offered"):
                self._offered.add(name)  # it waits for its owner, perhaps for days
            elif record.get("answer") is None and self._may(name):
                return partial(self._dream, name, record)
            elif record.get("answer") is not None:
                return partial(self._carry_out, name, raw)
        return None

    def _may(self, name: bytes) -> bool:
        return time.monotonic() - self._failed.get(name, -PAUSE_SECONDS) >= PAUSE_SECONDS

    async def _write(self, name: bytes, record: dict[str, Any]) -> None:
        """Ask Claude for the night, and leave its answer."""
        written = await self._asked(name, record)
        await self._answered(keys=[keys.ASKED, keys.WRITTEN], args=[name, orjson.dumps(written)])
        await self._redis.expire(keys.WRITTEN, keys.WRITING_TTL_SECONDS)

    async def _dream(self, name: bytes, record: dict[str, Any]) -> None:
        written = await self._asked(name, record)
        if "text" in written:
            more = {one: value for one, value in record.items() if one != "prompt"} | {"answer": written["text"]}
            await self._answered(keys=[keys.DREAMS, keys.DREAMS], args=[name, orjson.dumps(more)])

    async def _asked(self, name: bytes, record: dict[str, Any]) -> dict[str, str]:
        answer = await self._core.claude.ask_alone(str(record["prompt"]), str(record.get("model") or ""))
        core, chat_id = self._core, str(record.get("chat_id") or "")
        await asyncio.to_thread(
            lambda: features().ask(
                claude_used, settings=core.settings, client=core.background, chat_id=chat_id, usage=answer.usage
            )
        )
        if answer.error is not None:
            self._failed[name] = time.monotonic()
            log.warning("Claude wrote nothing for the night", reason=answer.error)
            return {"error": str(answer.error)}
        return {"text": answer.text}

    async def _carry_out(self, name: bytes, raw: bytes) -> None:
        """Carry out the changes, or offer them where the owner decides."""
        dream = parse_dream(raw)
        if dream is None:
            return
        if dream.propose:
            offered = await asyncio.to_thread(self._dreaming.undecided, dream)
            carried = Carried(proposed=len(offered))
            if offered:
                await self._answered(
                    keys=[keys.DREAMS, keys.DREAMS], args=[name, orjson.dumps(orjson.loads(raw) | {"offered": True})]
                )
        else:
            carried = await asyncio.to_thread(self._dreaming.carry_out, dream)
        crash_point("dream:carried-out")
        if not carried.proposed:
            await self._redis.hdel(keys.DREAMS, name)
        await asyncio.to_thread(partial(note_result, self._core.background, dream.run, carried))
        log.info(
            "memories were put in order",
            run=dream.run,
            changed=carried.changed,
            proposed=carried.proposed,
            refused=carried.refused.total(),
        )
