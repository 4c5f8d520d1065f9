"""What both directions share: a Redis with our users, a Telegram, a Claude, h-cli's files, and people who ask and are answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from tests.interop.peers import PYTHON, Claude, Peers
from tests.servers.telegram_api import TelegramApi
from tests.support.day.telegram_bot import wait_until
from tests.support.redis.users import Guarded, guarded_redis, refusals
from tests.support.world import World

#: Seconds within which a person must see what they wait for: the CLI starts anew for each question, on a busy machine too.
PATIENCE_SECONDS = 90.0
#: Private chats.
CHATS = [9901, 9902, 9903, 9904, 9905]


@dataclass
class Stage:
    guarded: Guarded
    redis: Redis  # may do everything
    api: TelegramApi
    claude: Claude
    peers: Peers
    world: World

    def say(self, chat: int, text: str) -> int:
        """Write it; how many messages of the bot were there before."""
        before = len(self.api.texts(chat))
        self.api.say(chat, text)
        return before

    def sees(self, chat: int, before: int, *words: str) -> str:
        """Until the bot's messages after the first `before` hold all these words; those messages as one text."""

        def seen() -> str:
            return "\n".join(self.api.texts(chat)[before:])

        wait_until(
            lambda: all(one in seen() for one in words), lambda: f"{words} in {seen()!r}", seconds=PATIENCE_SECONDS
        )
        return seen()

    def task_of(self, question: str) -> str:
        """The id of the task that asked this, of a turn in Redis."""
        (found,) = [task for task, said in self.turns("user").items() if said == question]
        return found

    def turns(self, role: str) -> dict[str, str]:
        """Task id → what is stored as said by that side."""
        names = cast(list[bytes], list(self.redis.scan_iter(match=f"hcli:memory:*:{role}")))
        raws = cast(list[bytes | None], self.redis.mget(names)) if names else []
        turns = [json.loads(raw) for raw in raws if raw]
        return {str(turn["task_id"]): str(turn["content"]) for turn in turns}

    def refused(self) -> list[Any]:
        """What Redis refused to anybody; but to the owner's commands, which ask what they may not see, is not looked at here."""
        return refusals(self.redis)


@contextmanager
def stage(request: pytest.FixtureRequest, root: Path) -> Iterator[Stage]:
    """Skipped with a word where h-cli's files are not given."""
    directory = request.config.getoption("--interop")
    if directory is None:
        pytest.skip("needs h-cli's files: scripts/test --interop DIR")
    if not PYTHON.exists():
        pytest.fail("h-cli's packages are not installed. Run scripts/test --interop DIR.")
    with guarded_redis(root / "redis") as guarded, TelegramApi() as api, Claude() as claude:
        redis = guarded.client("tester")
        redis.acl_log_reset()
        peers = Peers(Path(directory).resolve(), root)
        world = World(root, redis, guarded.urls["dispatcher"])
        world.environment = {"EMBEDDER": "none", "NIGHT_INDEXES": "none", **claude.environment, "CLAUDE_BIN": "claude"}
        try:
            yield Stage(guarded, redis, api, claude, peers, world)
        finally:
            peers.stop()
            for dispatcher in world.dispatchers:
                dispatcher.stop(9)
            redis.close()


def side_by_side(*conversations: Callable[[], None]) -> None:
    """Several people at once, each in a chat of their own; the first fault is raised."""
    with ThreadPoolExecutor(len(conversations)) as pool:
        for done in [pool.submit(one) for one in conversations]:
            done.result()


class Talker:
    """One of those who talk, in a chat of their own."""

    def __init__(self, people: Stage, chat: int) -> None:
        self.people, self.chat, self._asked = people, chat, list[str]()

    def _question(self, number: int, words: str = "") -> str:
        self._asked.append(f"question {self.chat} {number}{words}?")
        return self._asked[-1]
