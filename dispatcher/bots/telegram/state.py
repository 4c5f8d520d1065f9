"""The bot's state in Redis. Every change of state is one Lua script (in lua/) and may be repeated.

`hcli:mem:bot:waiting:main` has for each task where its answer goes and how much of it has been sent. The bot's own messages (replies to commands,
the outbox, notices) wait there too, with their text: so they survive a crash and only their own chat can hold them up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar, cast

from redis.asyncio import Redis

from dispatcher.bots.answers import Answers
from dispatcher.queue.chats import moved_chats, signed_move
from dispatcher.queue.scripts import script_text
from shared.text.logs import Logger
from shared.text.translations import language_of, later, speaking, tr
from shared.turns.records import MOST_TASK_BYTES, RecordRefused, Task, dumps, loads_object, with_text
from shared.turns.signed import Result, SignedRecord, reply_command_of
from shared.wire import keys
from shared.wire.ids import MAIN_BOT
from shared.wire.json import record_of

log = Logger()
Record = TypeVar("Record", bound=SignedRecord)

#: Where this bot's records are: another bot on the same Redis has its own.
WAITING, ARRIVING = keys.bot_waiting(MAIN_BOT), keys.bot_arriving(MAIN_BOT)
OUTBOX = keys.outbox(MAIN_BOT)
#: The answer to a message that was taken back.
CANCELLED = later("Cancelled.")
#: Queued messages of all chats, and unanswered ones of one chat, at which more are refused, with a notice.
QUEUED, QUEUED_OF_CHAT = 100, 10
#: Within so many seconds a second press of the same button is taken for a double press.
PRESS_SECONDS = 10


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True)
class Waiting(SignedRecord):
    """A delivery. `at` is when it began (POSIX seconds); `text` is one of the bot's own messages, None while an answer is awaited."""

    kind = WAITING
    chat: str  # text, as a Lua number would lose digits
    at: float
    thread: int | None = None
    reply_to: int | None = None
    placeholder: int | None = None  # message that the answer will replace; NO_ID if it was sent and has no known id
    warned: bool | None = None  # the placeholder says that an unsigned result came
    unattended: bool | None = None  # the placeholder says why the answer comes later
    parts_sent: int = 0
    files_sent: int | None = None
    text: str | None = None
    user: str | None = None  # who asked, as the task has it
    buttons: list[list[dict[str, str]]] | None = None  # below the text (results.py)
    row: int | None = None  # message that was sent last, with the buttons
    language: str | None = None  # of the notices that are sent meanwhile
    command: bool | None = None  # answered at once: its placeholder has no button to stop it
    digest: bool | None = None  # the text repeats what was said: `hmem forget` removes it whole

    @property
    def target(self) -> int:
        return int(self.chat)


@dataclass(frozen=True)
class Mark:
    """What is known of a message whose task was taken, for later edits. Stored for two days."""

    task: str
    digest: str
    start: int = 0  # of one of several messages whose texts became one: where its own begins there, and ends
    end: int = 0  # 0 for a message alone

    def put(self, text: str, whole: str) -> str | None:
        """The text of the task with this in the place of the message's own; None if that has changed otherwise."""
        if not self.end:
            return text
        own = whole[self.start : self.end]
        return whole[: self.start] + text + whole[self.end :] if digest(own) == self.digest else None

    def to_json(self) -> bytes:
        return dumps(asdict(self))


class InRedis:
    """What runs the bot's scripts."""

    def __init__(self, redis: Redis, secret: str) -> None:
        self._redis, self._secret = redis, secret

    async def _run(self, script: str, names: list[str], arguments: list[Any], room: str = "bots/telegram") -> Any:
        run = self._redis.register_script(script_text(f"{room}/{script}"))
        return await cast(Awaitable[Any], run(keys=names, args=arguments))


class Queue(InRedis):
    """The queue of the dispatcher, and who serves it."""

    async def queued(self) -> list[tuple[bytes, Task]]:
        """Tasks in the queue, with their bytes; the dispatcher refuses invalid and too large ones, so they are left out."""
        found = []
        for raw in await self._run("queued", [keys.TASKS], [0, -1, MOST_TASK_BYTES], "queue"):
            with suppress(RecordRefused):
                found.append((raw, Task.parse(raw)))
        return found

    async def take_back(self, which: Callable[[Task], bool]) -> int:
        """Take tasks out of the queue and answer them, each in its own language; returns how many. A dispatcher may have taken some by now."""
        taken = 0
        for raw, task in await self.queued():
            if which(task):
                with speaking(task.language):
                    text = tr(CANCELLED)
                result = Result.sign(self._secret, task.task_id, text, error=True).to_json()
                names = [keys.TASKS, keys.result(task.task_id)]
                taken += int(await self._run("cancel", names, [raw, result, keys.RESULT_TTL_SECONDS]))
        return taken

    async def cancel_running(self, task_id: str) -> None:
        await self._redis.set(keys.cancel(task_id), "1", ex=keys.CANCEL_TTL_SECONDS)

    async def queue_length(self) -> int:
        return int(await self._redis.llen(keys.TASKS))

    async def attended(self) -> bool:
        """Whether a dispatcher of ours is alive. Another program's, such as h-cli's, is not visible here."""
        workers = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(keys.RELEASE))
        leases = [keys.lease(worker.decode("utf-8", "replace")) for worker in workers]
        return bool(leases and await self._redis.exists(*leases))

    async def unattended(self, task_ids: set[str]) -> set[str]:
        """Those of these tasks that are still queued while no dispatcher of ours is alive. (A task that h-cli's has taken is no longer queued.)"""
        if await self.attended():
            return set()
        return {task.task_id for _, task in await self.queued()} & task_ids

    async def last_night(self) -> bytes | None:
        return cast(bytes | None, await self._redis.get(keys.NIGHT_LAST))


class Updates(InRedis):
    """What is noted of updates and messages that came in: none is taken twice, none is lost."""

    def __init__(self, redis: Redis, secret: str) -> None:
        super().__init__(redis, secret)
        self._queue = Queue(redis, secret)

    async def taken(self, task_id: str) -> bool:
        """Whether this update was taken before."""
        return bool(await self._redis.exists(keys.bot_seen(task_id)))

    async def take(
        self,
        task_id: str,
        record: Waiting,
        task: bytes,
        message: str,
        mark: Mark | None,
        refusal: Waiting | None,
        arriving: bytes = b"",
    ) -> int:
        """Queue a task, unless too much is waiting (then -1, and the chat is told by `refusal`) or it was taken before (0). `arriving`: what
        stands among the arriving messages (0 if that has changed)."""
        seen, message_seen = keys.bot_seen(task_id), keys.bot_seen(message)
        names = [WAITING, seen, keys.TASKS, keys.pending(record.chat), message_seen, ARRIVING]
        queue_limit = "" if record.command else QUEUED  # it may be held questions that fill it
        limits = [queue_limit, QUEUED_OF_CHAT, keys.BOT_SEEN_TTL_SECONDS]
        refused = [full := f"full-{record.chat}", refusal.to_json(self._secret, full)] if refusal else ["", ""]
        more = [mark.to_json() if mark else b"", *refused, arriving]
        waiting = record.to_json(self._secret, task_id)
        return int(await self._run("intake", names, [task_id, waiting, task, *limits, *more]))

    async def say(self, update: str, record: Waiting, arriving: bytes = b"") -> None:
        """One of the bot's own messages in reply to an update, once. `arriving`: as in `take`."""
        await self.take(update, record, b"", update, None, None, arriving)

    async def arrive(self, task_id: str, update: str, before: bytes, after: SignedRecord) -> int:
        """Store one of them with the update that brought it: 1 stored, 0 that update was taken before, -1 it has changed meanwhile."""
        names, signed = [ARRIVING, keys.bot_seen(update)], after.to_json(self._secret, task_id)
        return int(await self._run("arrive", names, [task_id, before, signed, keys.BOT_SEEN_TTL_SECONDS]))

    async def drop_arriving(self, task_id: str) -> None:
        await self._redis.hdel(ARRIVING, task_id)

    async def tell(self, field: str, record: Waiting, mark: str, seconds: int) -> bool:
        """One of the bot's own messages, once for as long as the mark lasts."""
        said = record.to_json(self._secret, field)
        return bool(await self._run("say_once", [WAITING, mark], [field, said, seconds]))

    async def edited(self, update: str, message: str, mark: Mark, text: str, user: int) -> bool:
        """Give what is queued of a message (its task, an earlier edit) the new text, edited by `user`; False if nothing is, or not as it was."""
        changed, end = [], mark.end and mark.start + len(text)
        # An edit before the question, if that was put back (postpone.lua).
        for raw, task in reversed(await self._queue.queued()):
            is_meant = mark.task in (task.task_id, task.corrects if task.edited else None)
            if is_meant and (whole := mark.put(text, task.message)) is not None:
                new = dumps(with_text(loads_object(raw), whole) | {"user_id": user})
                names = [keys.TASKS, keys.bot_seen(update), keys.bot_seen(message)]
                after = replace(mark, digest=digest(text), end=end).to_json()
                changed.append(await self._run("edit", names, [raw, new, after, keys.BOT_SEEN_TTL_SECONDS]))
        return any(changed)


class Deliveries(InRedis):
    """What is to be sent, and how much of it has been. `unbelieved` is called with a record that is removed (core.py)."""

    unbelieved: Callable[[bytes], Awaitable[None]]

    async def believed(self, place: str, kind: type[Record]) -> dict[str, tuple[bytes, Record]]:
        """The records of a hash, with their bytes. One that is unreadable or that nobody of us has signed is logged and removed."""
        found: dict[str, tuple[bytes, Record]] = {}
        for raw_name, raw in (await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(place))).items():
            name = raw_name.decode("utf-8", "backslashreplace")
            try:
                found[name] = raw, kind.verified(self._secret, name, raw)
            except RecordRefused as error:
                log.error("a record cannot be believed and is removed", key=place, record=name, error=str(error))
                await self.unbelieved(raw)
                await self._redis.hdel(place, cast(str, raw_name))
        return found

    async def waiting(self) -> dict[str, Waiting]:
        """Everything that is to be delivered, oldest first."""
        found = {name: record for name, (_, record) in (await self.believed(WAITING, Waiting)).items()}
        return dict(sorted(found.items(), key=lambda one: (one[1].at, one[0])))

    async def note(self, name: str, record: Waiting) -> None:
        await self._run("update_waiting", [WAITING], [name, record.to_json(self._secret, name)])

    async def delivered(self, name: str, record: Waiting, result: bytes = b"") -> None:
        await self._run("delivered", [WAITING, keys.result(name), keys.pending(record.chat)], [name, result])

    async def outbox_head(self) -> bytes | None:
        heads = await cast(Awaitable[list[bytes]], self._redis.lrange(OUTBOX, 0, 0))
        return heads[0] if heads else None

    async def take_from_outbox(self, raw: bytes, record: Waiting | None) -> None:
        field = f"outbox-{hashlib.sha256(raw).hexdigest()[:32]}"
        waiting = record.to_json(self._secret, field) if record else b""
        await self._run("outbox", [OUTBOX, WAITING], [raw, field, waiting])


class Chats(InRedis):
    """What a chat has chosen."""

    async def end_conversation(self, chat: str) -> None:
        await self._run("new", [keys.session(chat), keys.bot_new(chat)], [keys.HISTORY_TTL_SECONDS])

    async def has_own(self, chat: str) -> bool:
        """Whether anything of this chat is here: a conversation, settings, unanswered messages, an answer of the last days."""
        names = keys.session(chat), keys.chat_settings(chat), keys.pending(chat), keys.bot_seen(f"row-{chat}")
        return bool(await self._redis.exists(*names))

    async def moved(self) -> dict[int, int]:
        """Group → the supergroup that it has become."""
        return moved_chats(await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(keys.MOVED)), self._secret)

    async def move(self, chat: int, to: int) -> None:
        await self._redis.hset(keys.MOVED, str(chat), cast(str, signed_move(self._secret, chat, to)))

    async def chosen(self, chat: str, what: str) -> str:
        """Its `model` or `language`; "" if it has chosen none."""
        raw = await cast(Awaitable[bytes | None], self._redis.hget(keys.chat_settings(chat), what))
        return (raw or b"").decode("utf-8", "replace")

    async def choose(self, chat: str, what: str, value: str) -> None:
        """Its own, or "" for the default again: written as empty, so that the archive is told."""
        await self._redis.hset(keys.chat_settings(chat), what, value)

    async def language(self, chat: str) -> str | None:
        return language_of(await self.chosen(chat, "language"))


class ChatMarks(InRedis):
    """What the bot notes about single messages, for two days: `hcli:mem:bot:seen:…`.

    press-<chat>-<message>-<digest>   this button was just pressed: a double press counts once
    reply-<chat>-<message>            a reply to this message is this command of that person
    row-<chat>                        the message with the buttons of the newest answer
    <chat>-<message>                  the task of this message (`Mark`)
    """

    async def first_press(self, update: str, chat: int, message: int, data: str) -> bool:
        """Whether this is the first press of a button within a while; the same update may ask again."""
        name = hashlib.sha256(data.encode("utf-8", "replace")).hexdigest()[:16]
        key = keys.bot_seen(f"press-{chat}-{message}-{name}")
        before = cast(bytes | None, await self._redis.set(key, update, nx=True, get=True, ex=PRESS_SECONDS))
        return before is None or before == update.encode()

    async def note(self, name: str, value: bytes = b"1") -> None:
        """For two days."""
        await self._redis.set(keys.bot_seen(name), value, ex=keys.BOT_SEEN_TTL_SECONDS)

    async def noted(self, name: str) -> bytes:
        """The value; empty for none."""
        return cast(bytes | None, await self._redis.get(keys.bot_seen(name))) or b""

    async def of_message(self, label: str) -> Mark | None:
        """What is known of a message whose task was taken."""
        raw = await self.noted(label)
        return Mark(**loads_object(raw)) if raw else None

    async def expect_reply(self, chat: int, message: int, command: str, user: str) -> None:
        """A reply of this person to this message is this command."""
        await self.note(f"reply-{chat}-{message}", dumps({"command": command, "user": user}))

    async def reply_command(self, chat: int, message: int, user: str) -> str:
        """The command that a reply of this person to this message is; "" if it is only a reply."""
        record = record_of(await self.noted(f"reply-{chat}-{message}"))
        return reply_command_of(record.get("command")) if record.get("user") == user else ""


class BotState:
    """The bot's state in Redis, by subject."""

    def __init__(self, redis: Redis, secret: str) -> None:
        own = (redis, secret)
        self.queue, self.updates, self.deliveries = Queue(*own), Updates(*own), Deliveries(*own)
        self.chats, self.marks = Chats(*own), ChatMarks(*own)
        self.answers = Answers(redis, secret)

    async def unanswered(self) -> dict[str, Waiting]:
        """Deliveries whose result has not arrived yet."""
        found = [name for name, one in (await self.deliveries.waiting()).items() if one.text is None]
        answered, _ = await self.answers.results(found)
        # Read again: the bot may have taken a result meanwhile, whose key is gone then.
        left = await self.deliveries.waiting() if found else {}
        return {name: one for name, one in left.items() if one.text is None and name in found and name not in answered}

    async def cancel(self, chat: str, may: Callable[[str, str | None], bool]) -> tuple[int, int, int]:
        """Answer the queued tasks of a chat that `may` (of a task's id and person) lets end, and ask the dispatcher to stop the running ones: how
        many of each, and how many stay."""
        taken_back = await self.queue.take_back(lambda task: task.chat_id == chat and may(task.task_id, task.user_id))
        left = {name: one for name, one in (await self.unanswered()).items() if one.chat == chat}
        asked = [name for name, one in left.items() if may(name, one.user)]
        for name in asked:
            await self.queue.cancel_running(name)
        # What was put back before it was asked to stop (postpone.lua).
        put_back = await self.queue.take_back(lambda task: task.task_id in asked)
        return taken_back + put_back, len(asked) - put_back, len(left) - len(asked)
