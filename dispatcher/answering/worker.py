"""The dispatcher's loop: claims tasks and hands them over (task_handler.py), up to MAX_CONCURRENT_TASKS in parallel, one at a time per chat.

In the background: the heartbeat, which also recovers the tasks of dead workers, the watch over the release, and the watch for cancelled tasks.
A stop gives the running tasks TASK_TIMEOUT to end; then, or at a second stop, their processes are killed and they go back to the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import cast

import redis
from redis.asyncio import Redis

from dispatcher.answering.hooks import background, dispatcher_stopping
from dispatcher.answering.task_handler import TaskHandler
from dispatcher.health.watchdog import Supervisor
from dispatcher.queue.cancellation import Run, end_unwanted
from dispatcher.queue.tasks import NOT_YET, Claim
from shared.config.settings import Settings
from shared.errors import RedisUnavailable
from shared.system.waiting import set_within
from shared.text.logs import Logger
from shared.wire import keys
from shared.wire.client import BACKGROUND, is_too_old, open_redis

log = Logger()

#: Seconds between two heartbeats; the lease lasts three of them.
BEAT_SECONDS = 10.0
#: Seconds between two checks of where `current` points.
WATCH_SECONDS = 1.0
#: Seconds between two checks for cancelled tasks.
CANCEL_SECONDS = 0.4
#: Seconds between two attempts to open what is missing.
RETRY_SECONDS = 60.0
#: Seconds to block for work, and to wait while all queued chats are busy.
BLOCK_SECONDS = 5
BUSY_SECONDS = 0.25
#: Seconds that one claim may take. A Redis that accepts and never answers would block the client's own retries for over a minute.
CLAIM_TIMEOUT_SECONDS = 20
#: Seconds that a round of consolidation gets to end when the dispatcher stops.
CONSOLIDATION_END_SECONDS = 20
#: Seconds within which the claim loop makes a turn even then: two such calls and the longest pause, with slack.
TURN_SECONDS = 90
#: Seconds that a task may take in addition to its calls of Claude, of which there may be two (a lost session is replaced once).
GRACE_SECONDS = 120
#: Longest pause after failures of Redis, in tenths of a second as a power of two: 3.2 s.
LONGEST_PAUSE = 5


class Worker:
    """One dispatcher process."""

    def __init__(self, settings: Settings, client: Redis, handler: TaskHandler) -> None:
        self._settings, self._redis, self._handler, self._parts = settings, client, handler, handler.parts
        self._queue, self._served = handler.parts.core.queue, handler.parts.core.served
        self._running: dict[asyncio.Task[None], Run] = {}
        self._alone = False  # the running task must run alone
        self._found = False  # something was queued at the end of the last wait
        self._stop, self._stop_now = asyncio.Event(), asyncio.Event()
        self._freed = asyncio.Event()
        self._answered: Callable[[], None] = lambda: None
        self._supervisor = Supervisor()
        self._background: list[asyncio.Task[None]] = []
        self._turned = self._redis_failed = time.monotonic()

    def stop(self) -> None:
        """Once: take no more tasks and finish those running. Twice: end them and requeue."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()
        self._parts.hooks.ask(dispatcher_stopping)
        self._supervisor.stopping()
        self._freed.set()

    async def run(self) -> None:
        await self._check_redis()
        await self._check_format()
        await self._live(None)
        self._parts.cache_dropper.dropped_for = self._parts.cache_dropper.seen  # nothing is cached yet
        self._background = [
            asyncio.create_task(watch) for watch in (self._beat(), self._watch(), self._watch_cancels())
        ]
        helpers = [asyncio.create_task(helper) for helper in (self._feed_watchdog(), self._parts.hooks.run(background))]
        log.info("dispatcher started", worker=self._queue.worker)
        try:
            async with self._consolidating():
                await self._claim_until_stopped()
                await self._finish_running()
        finally:
            for task in (*helpers, *self._background):
                task.cancel()
            await asyncio.gather(*helpers, *self._background, return_exceptions=True)
            with contextlib.suppress(redis.RedisError):
                log.info("dispatcher stopped", requeued=await self._queue.leave())
            # Threads that features have begun end first: one whose connection is closed while it reads would wait for its time limit.
            await asyncio.get_running_loop().shutdown_default_executor()
            self._parts.close()

    @contextlib.asynccontextmanager
    async def _consolidating(self) -> AsyncIterator[None]:
        """Consolidation in the background, with its own connection; a running round ends between two steps."""
        if not self._parts.core.day.wanted:
            yield
            return
        from dispatcher.queue.consolidation.rounds import Consolidator, hasten, scheduled

        client = open_redis(self._settings.redis_url, BACKGROUND)
        consolidator = Consolidator(self._parts.core.day, client, self._queue.worker)
        scheduler = scheduled(consolidator, self._settings.consolidation_interval)
        scheduler.start()
        self._answered = partial(hasten, scheduler, consolidator)
        try:
            yield
        finally:
            consolidator.stop()
            scheduler.pause()
            await asyncio.to_thread(consolidator.wait, CONSOLIDATION_END_SECONDS)
            scheduler.shutdown(wait=False)
            client.close()

    async def _check_redis(self) -> None:
        version = str((await self._redis.info("server"))["redis_version"])
        if is_too_old(version):
            raise RedisUnavailable(f"Redis {version} is too old: 7.0 or newer is required. Update it.")

    async def _check_format(self) -> None:
        """FormatNewer if a newer program wrote our keys; else they are ours from here on."""
        from shared.release.manifest import FORMAT_VERSION
        from shared.system.formats import claim_redis

        try:
            raw = cast(bytes | None, await self._redis.get(keys.FORMAT))
            if (record := claim_redis(raw, FORMAT_VERSION)) is not None:
                await self._redis.set(keys.FORMAT, record)
        except redis.ResponseError as error:  # another program wrote the key
            log.warning("the format of the keys in Redis is not checked", error=str(error), todo="hmem doctor")

    async def _finish_running(self) -> None:
        if self._running:
            log.info("finishing running tasks", tasks=len(self._running), seconds=self._settings.task_timeout)
            waiting = [asyncio.create_task(self._all_ended()), asyncio.create_task(self._stop_now.wait())]
            await asyncio.wait(waiting, timeout=self._settings.task_timeout, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
        if running := list(self._running):
            log.warning("stopping now, running tasks go back to the queue", tasks=len(running))
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _all_ended(self) -> None:
        while self._running:
            await asyncio.wait(list(self._running))

    async def _beat(self) -> None:
        """Heartbeat and recovery of the tasks of dead workers, every few seconds, however slow everything else is."""
        while True:
            try:
                await self._live(self._served.served_run)
                if recovered := await self._queue.recover():
                    log.warning("took over the tasks of a dead dispatcher", tasks=recovered)
            except redis.RedisError as error:
                log.error("the heartbeat could not be sent", error=str(error))
            except Exception:  # whatever it is, there must be a next beat
                log.exception("the heartbeat failed")
            await asyncio.sleep(BEAT_SECONDS)

    async def _live(self, served_run: int | None) -> None:
        """Send a heartbeat; caches are dropped for new forgettings by `_watch`, or before the next answer."""
        cache_dropper = self._parts.cache_dropper
        cache_dropper.seen = await self._queue.beat(served_run, cache_dropper.dropped_for)

    async def _watch(self) -> None:
        """Serve the release that `current` points to, and drop the caches after a forgetting; report it immediately: night and `hmem forget` wait."""
        retried = time.monotonic()
        while True:
            try:
                if time.monotonic() - retried > RETRY_SECONDS:
                    retried = time.monotonic()
                    await asyncio.to_thread(self._served.retry)
                if self._parts.cache_dropper.due:
                    await asyncio.to_thread(self._parts.cache_dropper.drop_if_due)
                    await self._live(self._served.served_run)
                if self._served.moved():
                    await asyncio.to_thread(self._served.refresh)
                    await self._live(self._served.served_run)
            except redis.RedisError:
                pass  # the next heartbeat logs it
            except Exception:  # without memory there must still be answers
                log.exception("the watch over the release failed")
            await asyncio.sleep(WATCH_SECONDS)

    async def _watch_cancels(self) -> None:
        """End the tasks that the bot has cancelled, has answered itself, or no longer waits for. Redis is not asked while nothing runs."""
        while True:
            await asyncio.sleep(CANCEL_SECONDS)
            runs = [run for run in self._running.values() if run.task_id and not run.cancelled]
            if not runs:
                continue
            try:
                await end_unwanted(self._redis, runs, self._handler.judge_existing)
            except redis.RedisError:
                pass  # the claim loop logs it
            except Exception:
                log.exception("the watch for cancelled tasks failed")

    async def _feed_watchdog(self) -> None:
        while period := self._supervisor.watchdog_seconds:
            if hang := self._hang(time.monotonic()):
                log.error("the watchdog is not fed", reason=hang)
            else:
                self._supervisor.alive()
            await asyncio.sleep(period / 4)

    def _hang(self, now: float) -> str | None:
        """What hangs, or None. An outage of Redis is not a hang: it is tried again. If the event loop itself hangs, the watchdog gets no sign."""
        if not self._stop.is_set() and now - self._turned > TURN_SECONDS:
            return "the claim loop hangs"
        if any(task.done() for task in self._background):
            return "the heartbeat or the watch over the release has ended"
        limit = 2 * self._settings.task_timeout + GRACE_SECONDS
        if any(now - max(run.began, self._redis_failed) > limit for run in self._running.values()):
            return "a task does not end"
        return None

    async def _claim_until_stopped(self) -> None:
        token, failures = self._queue.next_token(), 0
        while not self._stop.is_set():
            self._turned = time.monotonic()
            if len(self._running) >= (1 if self._alone else self._settings.max_concurrent_tasks):
                await self._pause(BLOCK_SECONDS)
                continue
            try:
                async with asyncio.timeout(CLAIM_TIMEOUT_SECONDS):  # a claim may be repeated with the same token
                    claim = await self._queue.claim(token, len(self._running))
                self._supervisor.ready()
                if claim is None:
                    await self._wait_for_work()
                failures = 0
            except (redis.RedisError, TimeoutError) as error:
                self._redis_failed, self._found = time.monotonic(), False
                failures = min(failures + 1, LONGEST_PAUSE)
                log.error("the queue cannot be read, trying again", error=str(error) or "no answer")
                await self._pause(0.1 * 2**failures)
                continue
            if claim == NOT_YET:
                await self._pause_until_idle()
            elif claim is not None:
                token, self._found = self._queue.next_token(), False
                self._start(claim)

    async def _wait_for_work(self) -> None:
        """Wait until something is queued or a stop comes. If nothing of the queue could be claimed, its chats are busy: then pause."""
        if self._found:
            self._found = False
            await self._pause(BUSY_SECONDS)
            return
        waiting = asyncio.create_task(self._queue.wait(BLOCK_SECONDS))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({waiting, stopping}, timeout=CLAIM_TIMEOUT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if waiting.done():
            self._found = waiting.result()
        else:
            waiting.cancel()  # the blocked call moves nothing, so nothing is lost
            await asyncio.gather(waiting, return_exceptions=True)

    async def _pause_until_idle(self) -> None:
        """The next task may have killed its workers, and must run alone."""
        log.info("waiting for the running tasks: the next one runs alone", tasks=len(self._running))
        while self._running and not self._stop.is_set():
            self._turned = time.monotonic()
            await self._pause(BLOCK_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Wait until a task ends, a stop comes, or the time is up."""
        self._freed.clear()
        if not self._stop.is_set():
            await set_within(self._freed, seconds)

    def _start(self, claim: Claim) -> None:
        run = Run()
        task = asyncio.create_task(self._handler.handle(claim, run))
        self._running[task], self._alone = run, claim.alone
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._alone = False
        self._freed.set()
        self._answered()
        if not task.cancelled() and (error := task.exception()):
            log.error("a task stays in flight until this dispatcher ends", error=repr(error))
