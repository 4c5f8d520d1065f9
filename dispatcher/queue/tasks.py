"""The queue: a task is claimed, is in flight, and is finished. Every change of state is one Lua script (in lua/).

The in-flight entry is the write-ahead log: from the claim to the end of `finish.lua` the task is in `hcli:mem:inflight:<worker>`
under its claim token, so a worker may die at any moment. Order within a chat: `claim.lua` never takes a task whose chat is in
`hcli:mem:busy`, whichever dispatcher holds it; recovered tasks go back to the head of the queue. Among chats the least recently served
comes first. A task that killed workers runs alone the last time, so that no other task is dead-lettered with it.
All scripts may be repeated: a lost reply costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

from redis import ResponseError
from redis.asyncio import Redis

from dispatcher.claude.reply import Answer, Follows
from dispatcher.memory.session_history import conversation_of, history_entry
from dispatcher.queue.chat_commands import answered_at_once
from dispatcher.queue.existing_values import NO_TURNS, ExistingResult, Signed
from dispatcher.queue.refused import USED_ID, dead_letter
from dispatcher.queue.scripts import script_text
from dispatcher.queue.state import LONGEST_WAIT_SECONDS, SAME_TROUBLE_SECONDS
from shared.config.settings import Settings
from shared.hooks import failures
from shared.system.processes import died_here, process_name
from shared.text.format import tokens
from shared.turns.records import MOST_TASK_BYTES, RecordRefused, Task, Tombstone, Turn, dumps
from shared.turns.signed import RESULT_BYTES, Result
from shared.wire import keys
from shared.wire.ids import FROM_TERMINAL, bot_of
from shared.wire.values import amount_of

#: A task whose worker died this often is dead-lettered.
MAX_ATTEMPTS = 3
#: From this many deaths on it runs alone: it causes the next death itself.
ALONE_FROM = MAX_ATTEMPTS - 1
#: The times of postpone.lua. Seconds.
PAUSES: dict[str, Any] = {
    "first": 60, "pause": 600, "most": LONGEST_WAIT_SECONDS, "most_own": 3600, "same": SAME_TROUBLE_SECONDS,
}  # fmt: skip
#: How far in the queue an edit of a question is looked for.
FARTHEST_EDIT = 500
#: `claim` found a task that must run alone while others run: claim again once they have ended.
NOT_YET: Literal["not yet"] = "not yet"


@dataclass(frozen=True)
class Claim:
    """A task in flight. `lock` is the chat that waits for it ("" for a task without one)."""

    raw: bytes
    lock: bytes
    token: str
    alone: bool = False  # no other task may run in parallel


@dataclass(frozen=True)
class Begun:
    """What is known of a task when its answer begins. If it is not to be run, nothing is known of the session."""

    done: str | None  # digest of the task that was finished under this id; "?" if that cannot be read
    deaths: int  # workers that died over it
    turns: tuple[bytes, bytes]  # that already exist under its id: question and answer; "?" for one that is too large
    session: str
    resume: bool  # the session exists
    history: list[Turn]  # the conversation so far, if no session has it
    cost_before: float  # what the session has cost so far
    mark: str  # of the last forgetting (cache_dropping.py)


@dataclass(frozen=True)
class Counters:
    """Counters in a hash of Redis, and by how much they rise."""

    key: str
    ttl_seconds: int
    increments: Sequence[tuple[str, str]]  # (field, a number)


@dataclass(frozen=True)
class Finished:
    """Everything that a task leaves behind. Sessions are ids, "" for none; stats are counters of the day."""

    task: Task
    result: Result
    turns: list[Turn]
    session_was: str = "-"  # an id that no session has: nothing that depends on the session is written
    session: str = ""
    stats: list[tuple[str, str]] = field(default_factory=list)  # counters of the day: (field, increment)
    counters: tuple[Counters, ...] = ()  # those of features
    dead_reason: str | None = None
    tags: bytes = b""  # tags that could not be carried out: JSON for hcli:mem:tags
    why: bytes = b""  # what was injected: JSON for hcli:mem:why
    forget: bool = False  # the conversation so far ends here and is not replayed
    session_cost: float | None = None  # what the session has cost so far, if the CLI reports it
    outcome: str = "answered"  # one of metrics.OUTCOMES
    corrected: Turn | None = None  # an earlier turn that is written anew
    existing_turns: tuple[str, str] = NO_TURNS  # SHA-1 of its own turns that existed when it was begun
    error: Answer | None = None  # why there is no answer


class TaskQueue:
    """One worker's access to the queue. Tasks that are too large are refused, `signed` judges results."""

    def __init__(self, redis: Redis, signed: Signed, settings: Settings) -> None:
        self._redis, self._signed, self._settings = redis, signed, settings
        self.worker = process_name()
        self._claims = 0
        self._commands = f" {' '.join(answered_at_once())} "
        self._scripts = {
            name: redis.register_script(script_text(f"queue/{name}"))
            for name in "beat claim guard_wait_target begin finish postpone queued bury recover end_forgotten_conversation".split()
        }

    def next_token(self) -> str:
        """A token for one claim, in order of claiming."""
        self._claims += 1
        return f"{self.worker}:{self._claims:012d}"

    async def claim(self, token: str, running: int = 0) -> Claim | Literal["not yet"] | None:
        """The next task whose chat is free; repeat with the same token after a failure. `running`: tasks that this worker runs now."""
        own = keys.inflight(self.worker)
        names = [keys.TASKS, keys.BUSY, own, keys.WORKERS, keys.SERVED, keys.lease(self.worker), keys.HOLDS]
        limits: list[Any] = [ALONE_FROM, keys.SERVED_LENGTH, keys.LEASE_TTL_SECONDS, MOST_TASK_BYTES, time.time()]
        limits += [self._commands, FROM_TERMINAL, LONGEST_WAIT_SECONDS]
        answer = await self._run("claim", names, [token, self.worker, running, keys.attempts(""), *limits])
        if isinstance(answer, int):
            return NOT_YET
        return Claim(answer[0], answer[1], token, bool(answer[2])) if answer else None

    async def wait(self, seconds: int) -> bool:
        """Block until the queue has a task or the time is up. The target of the move is not a list, so nothing moves: as soon as there is a task,
        Redis answers with that error instead of the task, which may be large."""
        await self._run("guard_wait_target", [keys.UNMOVED, keys.TASKS], [])
        try:
            moved = await cast(Awaitable[Any], self._redis.blmove(keys.TASKS, keys.UNMOVED, seconds, "LEFT", "LEFT"))
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return True
        return moved is not None  # the target was removed meanwhile: the next wait brings the task back

    async def end_if_forgotten(self, chat_id: str, tombstones: Sequence[Tombstone]) -> bool:
        """End a conversation with entries that were erased, and remove them: an old copy of Redis brought them back."""
        _, gone = conversation_of(await self._entries(chat_id), tombstones)
        return bool(gone) and bool(await self._run("end_forgotten_conversation", keys.conversation(chat_id), gone))

    async def begin(
        self, task: Task, fresh: str, tombstones: Sequence[Tombstone], existing_turns: tuple[str, str]
    ) -> Begun:
        """Everything that an answer must know, in one call. `fresh` is the id of a new session if none exists ("": none is wanted); it is written
        immediately, so that `/new` can end it during the answer. `tombstones`: those of the chat; `existing_turns`: turns that are known to be its
        own (SHA-1)."""
        ttl, replay = self._settings.session_ttl, "1" if self._settings.session_mode == "replay" else ""
        arguments = [fresh, ttl, MAX_ATTEMPTS, replay, RESULT_BYTES, *existing_turns]
        found = await self._run("begin", _begin_keys(task), arguments)
        done, deaths, user, asst, mark, before, spent_in, spent, *history = found
        stays = bool(done or int(deaths) >= MAX_ATTEMPTS)
        session = "" if stays else before.decode("utf-8", "replace") or fresh
        return Begun(
            done=done.decode("ascii", "replace") or None,
            deaths=int(deaths),
            turns=(user, asst),
            session=session,
            resume=session != fresh,
            history=conversation_of(history, tombstones)[0],
            cost_before=amount_of(spent) if spent_in.decode("utf-8", "replace") == session else 0.0,
            mark=mark.decode("utf-8", "replace"),
        )

    async def recent(self, task: Task, tombstones: Sequence[Tombstone]) -> list[Turn]:
        """The chat's conversation so far, oldest first."""
        return conversation_of(await self._entries(task.chat_id), tombstones)[0]

    async def _entries(self, chat_id: str) -> list[bytes]:
        try:
            return await cast(Awaitable[list[bytes]], self._redis.lrange(keys.history(chat_id), 0, -1))
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
            return []  # a key of another type has no entries

    async def finish(self, claim: Claim, finished: Finished) -> bool:
        """Write everything that the task leaves, once. False if it was finished before. RecordRefused if its id now belongs to another task."""
        arguments = [claim.token, claim.lock, dumps(_effects(finished, claim, self._settings.session_ttl))]
        done = await self._past_existing("finish", self._finish_keys(finished), arguments, finished.task.task_id)
        if done < 0:
            raise RecordRefused(USED_ID)
        return bool(done)

    async def postpone(self, claim: Claim, finished: Finished) -> bool:
        """Have a question that was not answered wait in the queue, if that may help; False if it is to be finished as it is."""
        task, error = finished.task, finished.error
        waits = error is not None and error.follows in (Follows.ALL_WAIT, Follows.CHAT_WAITS)
        if error is None or not waits or task.task_id.startswith(FROM_TERMINAL):
            return False
        names = [keys.inflight(self.worker), keys.BUSY, keys.TASKS, keys.HOLDS, keys.cancel(task.task_id)]
        names += [keys.session(task.chat_id), keys.partial(task.task_id), keys.bot_waiting(bot_of(task.chat_id))]
        everybody = error.follows is Follows.ALL_WAIT
        how = PAUSES | {"task": task.task_id, "all": everybody, "session": finished.session_was, "now": time.time()}
        how |= {"why": error.why, "resets": error.resets, "asked": task.submitted_at}
        return bool(await self._run("postpone", names, [claim.token, claim.lock, dumps(how)]))

    async def edits_of(self, task: Task) -> list[Task]:
        """New texts of a claimed question that wait in the queue, the newest last: they came while it was in flight before, and it was put back."""
        looked_at = [0, FARTHEST_EDIT, MOST_TASK_BYTES, task.task_id]
        queued: list[bytes] = await self._run("queued", [keys.TASKS], looked_at)
        found = list[Task]()
        for raw in queued:
            with suppress(RecordRefused):
                found.append(Task.parse(raw))
        return [one for one in found if one.edited and (one.corrects, one.chat_id) == (task.task_id, task.chat_id)]

    async def _past_existing(self, script: str, names: list[str], arguments: list[Any], task_id: str) -> int:
        """Run a script that writes a result; an existing one is judged first."""
        existing = ExistingResult(task_id, self._signed)
        while not existing.settled(answer := await self._run(script, names, [*arguments, *existing.arguments])):
            pass
        return int(answer)

    def _finish_keys(self, finished: Finished) -> list[str]:
        chat, task_id = finished.task.chat_id, finished.task.task_id
        corrected = finished.corrected.task_id if finished.corrected else task_id
        state = [keys.inflight(self.worker), keys.BUSY, keys.done(task_id)]
        turns = [keys.turn(task_id, "user"), keys.turn(task_id, "asst")]
        conversation = [keys.history(chat), keys.size(chat), keys.session(chat), keys.unconsolidated(chat)]
        outcome = [keys.result(task_id), keys.DEAD, keys.attempts(task_id), keys.spent(chat)]
        more = [keys.CHATS, keys.TAGS, keys.why(chat), keys.turn(corrected, "user"), keys.HOLDS]
        return [*state, *turns, *conversation, *outcome, *more]

    async def bury(self, claim: Claim, reason: str, task_id: str | None, result: Result | None) -> bool:
        """Dead-letter a task that cannot be processed; answer it if it has an id. False if the dead letters cannot be written."""
        names = [keys.inflight(self.worker), keys.BUSY, keys.DEAD, keys.result(task_id or "none")]
        letter, told = dead_letter(claim.raw, reason), result.to_json() if result else ""
        more = [keys.DEAD_LENGTH, told, keys.RESULT_TTL_SECONDS, keys.partial(task_id or "none")]
        arguments = [claim.token, claim.lock, letter, *more]
        return await self._past_existing("bury", names, arguments, task_id or "none") >= 0

    async def beat(self, served_run: int | None, dropped_for: str = "") -> str:
        """Send the heartbeat: the release that this worker serves, and the forgetting for which it dropped its caches. Returns the current mark."""
        names = [keys.WORKERS, keys.lease(self.worker), keys.RELEASE, keys.FEATURES, keys.FORGOTTEN]
        limits = [dropped_for, keys.LEASE_TTL_SECONDS, str(served_run or 0), keys.FEATURES_TTL_SECONDS]
        failed = [part for pair in failures.items() for part in pair]
        raised = await self._run("beat", names, [self.worker, *limits, *failed])
        return (raised or b"").decode("utf-8", "replace")

    async def recover(self) -> int:
        """Put back the tasks of dead workers: of this host immediately, of others when their leases have expired; returns how many."""
        members = await cast(Awaitable[set[bytes]], self._redis.smembers(keys.WORKERS))
        others = {member.decode("utf-8", "replace") for member in members} - {self.worker}
        return sum([max(0, await self._recover(one, died=True, certain=died_here(one))) for one in others])

    async def leave(self) -> int:
        """End of this worker: its tasks in flight go back to the head of the queue."""
        return await self._recover(self.worker, died=False, certain=True)

    async def _recover(self, worker: str, *, died: bool, certain: bool = False) -> int:
        """`certain`: ignore its lease. -1 if it is alive."""
        own = [keys.inflight(worker), keys.lease(worker)]
        names = [keys.TASKS, keys.BUSY, keys.WORKERS, *own, keys.RELEASE, keys.SERVED]
        arguments = [worker, int(died), keys.attempts(""), keys.ATTEMPTS_TTL_SECONDS, int(certain)]
        return int(await self._run("recover", names, arguments))

    async def _run(self, script: str, names: list[str], arguments: list[Any]) -> Any:
        return await self._scripts[script](keys=names, args=arguments)


def _effects(finished: Finished, claim: Claim, session_ttl: int) -> dict[str, Any]:
    turns = {turn.role: turn for turn in finished.turns}
    return {
        "user": _text(turns.get("user")),
        "asst": _text(turns.get("asst")),
        "history": [history_entry(turn) for turn in finished.turns],
        "size": sum(len(turn.content) for turn in finished.turns),
        "counters": _counters(finished),
        "digest": finished.task.digest,
        "session_was": finished.session_was,
        "session": finished.session,
        "session_ttl": session_ttl,
        "turn_ids": [turn.turn_id for turn in (*finished.turns, finished.corrected) if turn],
        "corrected": _text(finished.corrected),
        "dead": dead_letter(claim.raw, finished.dead_reason).decode() if finished.dead_reason else "",
        "result": finished.result.to_json().decode(),
        "result_ttl": keys.RESULT_TTL_SECONDS,
        "history_ttl": keys.HISTORY_TTL_SECONDS,
        "history_length": keys.HISTORY_LENGTH,
        "done_ttl": keys.DONE_TTL_SECONDS,
        "unconsolidated_length": keys.UNCONSOLIDATED_LENGTH,
        "dead_length": keys.DEAD_LENGTH,
        "chat": finished.task.chat_id,
        "tokens": sum(tokens(turn.content) for turn in finished.turns),
        "spent_ttl": max(keys.SPENT_TTL_SECONDS, session_ttl),
        "tags": finished.tags.decode(),
        "partial": keys.partial(finished.task.task_id),
        "why": finished.why.decode(),
        "why_kept": [keys.WHY_LENGTH, keys.WHY_TTL_SECONDS, datetime.now(UTC).timestamp() - keys.WHY_TTL_SECONDS],
        "forget": finished.forget,
        "session_cost": "" if finished.session_cost is None else repr(finished.session_cost),
        "existing_turns": finished.existing_turns,
    }


def _counters(finished: Finished) -> list[dict[str, Any]]:
    day = keys.stats(datetime.now(UTC).strftime("%Y-%m-%d"))
    every = (Counters(day, keys.STATS_TTL_SECONDS, finished.stats), *finished.counters)
    return [{"key": one.key, "ttl": one.ttl_seconds, "increments": one.increments} for one in every]


def _text(turn: Turn | None) -> str:
    return turn.to_json().decode("utf-8") if turn else ""


def _begin_keys(task: Task) -> list[str]:
    """What begin.lua reads, in its order."""
    chat, task_id = task.chat_id, task.task_id
    conversation = [keys.session(chat), keys.history(chat), keys.spent(chat)]
    turns = [keys.turn(task_id, "user"), keys.turn(task_id, "asst")]
    more = [keys.FORGOTTEN, keys.bot_new(chat), keys.size(chat)]
    return [keys.done(task_id), keys.attempts(task_id), *conversation, *turns, *more]
