"""One chat with a scripted model: say something, see the whole request that reached it."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.store.summaries import SessionSummary, Summaries
from dispatcher.memory.store.tables import turns
from dispatcher.memory.store.turns import Turns
from shared.turns.records import loads_object
from tests.support.machine import wait_for
from tests.support.world import REPOSITORY, World

CLAUDE = "tests/servers/scripted_claude.py"
CHAT = "9912"


def quick_talk(world: World) -> Talk:
    """With the scripted CLI and a consolidator that is always at work."""
    script = {"CLAUDE_BIN": str(REPOSITORY / CLAUDE), "CONSOLIDATION_INTERVAL": "0.1", "MEMORY_DEADLINE_MS": "10000"}
    world.environment |= script
    return Talk(world)


@dataclass(frozen=True)
class Request:
    """What the model was given: the system prompt, the message, and the history of the session if one was resumed."""

    system: str
    message: str
    history: list[dict[str, str]]
    session: str
    resumed: bool

    @property
    def whole(self) -> str:
        return json.dumps([self.system, self.message, self.history], ensure_ascii=False)

    def part(self, title: str) -> str:
        """The record under a heading of the system prompt; "" if there is none."""
        _, found, rest = self.system.partition(f"## {title}\n")
        return rest.partition("</record")[0] if found else ""


class Talk:
    """A chat in a world whose model answers by the script."""

    def __init__(self, world: World, chat_id: str = CHAT) -> None:
        self.world, self.chat_id = world, chat_id
        self._said = 0

    def requests(self) -> list[Request]:
        """Every request so far, of all chats."""
        log = self.world.root / "requests.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [Request(**json.loads(line)) for line in lines]

    def will_answer(self, message: str, answer: str) -> None:
        path = self.world.root / "answers.json"
        answers = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(answers | {message: answer}))

    def send(self, message: str, at: float | None = None) -> str:
        """Queue it as said at a time (POSIX seconds); its task id."""
        self._said += 1
        task_id = f"{self.chat_id}-{self._said}"
        stamp = datetime.fromtimestamp(time.time() if at is None else at, UTC).isoformat()
        self.world.enqueue(task_id, message, chat_id=self.chat_id, submitted_at=stamp)
        return task_id

    def reply(self, task_id: str) -> str:
        """The reply to a task, when it comes."""
        key = f"hcli:results:{task_id}"
        wait_for(lambda: self.world.redis.exists(key), f"the reply to {task_id}")
        raw: Any = self.world.redis.get(key)
        return str(loads_object(raw)["output"])

    def say(self, message: str, answer: str | None = None, at: float | None = None) -> str:
        """Say it and get the reply."""
        if answer is not None:
            self.will_answer(message, answer)
        return self.reply(self.send(message, at))

    def asked(self, message: str, answer: str | None = None, at: float | None = None) -> Request:
        """Say it; the request that reached the model."""
        before = len(self.requests())
        self.say(message, answer, at)
        (request,) = self.requests()[before:]
        return request

    def new_session(self) -> None:
        """`/new`: the bot deletes the session and the short list."""
        names = ("session", "session_history", "session_size")
        self.world.redis.delete(*(f"hcli:{name}:{self.chat_id}" for name in names))

    def consolidated(self) -> None:
        """Until all that was said is in the day store."""
        wait_for(lambda: not self.world.redis.llen(f"hcli:mem:unconsolidated:{self.chat_id}"), "consolidation")

    def embedded(self) -> None:
        """Until all turns in the day store have their vectors, which are made when nobody asks."""
        self.consolidated()
        wait_for(lambda: not without_vectors(self.world), "the vectors of the day")


def without_vectors(world: World) -> int:
    """How many turns of the day store have no vector yet."""
    with closing(store(world)) as database, database.reading() as connection:
        query = sa.select(sa.func.count()).select_from(turns).where(turns.c.embedding_model.is_(None))
        return int(connection.execute(query).scalar_one())


def store(world: World) -> Database:
    settings = world.settings()
    return Database(settings.day_store_url, settings.hmem_state_dir)


def stored(world: World, chat: str = CHAT) -> list[tuple[str, str]]:
    """(turn id, content) of all turns in the day store."""
    with closing(store(world)) as database:
        return [(one.turn_id, one.content) for one in Turns(database).back(chat)][::-1]


def kept(world: World, chat: str = CHAT) -> list[tuple[MemoryType, str]]:
    with closing(store(world)) as database:
        return [(memory.type, memory.text) for memory in Memories(database).list(chat)]


def summaries(world: World, chat: str = CHAT) -> list[SessionSummary]:
    with closing(store(world)) as database:
        return Summaries(database).list(chat, 100)


def owe(world: World, text: str) -> None:
    """A goal that was made two days ago and is due in half an hour: it is time for its reminder."""
    with closing(store(world)) as database:
        goal = Memory(CHAT, MemoryType.GOAL, text, time.time() - 2 * 86_400, deadline=time.time() + 1_800)
        Memories(database).add(goal)


def outbox(world: World) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in world.redis.lrange("hcli:mem:outbox:main", 0, -1)]


def waiting(world: World, task_id: str, content: str, *, chat_id: str = CHAT, **more: Any) -> None:
    """A turn that waits for consolidation, as finish.lua leaves it."""
    world.say(task_id, content, chat_id=chat_id, timestamp=time.time() - 3600, **more)
    world.redis.rpush(f"hcli:mem:unconsolidated:{chat_id}", f"{task_id}:user")
    world.redis.sadd("hcli:mem:chats", chat_id)
