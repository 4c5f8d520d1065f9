"""A household that has talked for some days, with a night after each of them, and the owner's page over it."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dispatcher.features.web.serve import Prepared, prepare
from shared.wire import keys
from tests.support.machine import free_port, redis_server, wait_for
from tests.support.world import World

DAY_SECONDS = 86_400.0
NOOR, GROUP, ODD = "9912", "-1001234", "café/Ünïon?a=1&b=<b>'\"#%41"
LIGHT = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}
#: What is said in which chat, and what the bot answers; made up.
TALK: dict[str, tuple[str, Sequence[tuple[str, str]]]] = {
    NOOR: (
        "Noor",
        (
            ("The boiler stopped again, its display shows F28.", "F28 means that it got no gas. Is the valve below it open?"),
            ("The valve was closed. Mr Ortega comes on Tuesday at nine to look at it.", "Good. I noted Tuesday at nine."),
            ("I moved to Lisbon in March and still unpack boxes.", "That is a lot of boxes. Shall I remind you of the rest?"),
            ("My sister Anna lands on Friday at 21:40, flight TP 571.", "TP 571 on Friday at 21:40; the airport bus runs until midnight."),
            ("I prefer tea to coffee in the evening.", "I will remember that."),
            ("The rent goes up by 40 euros in January.", "Then it is 940 euros from January on."),
            ("Coco was at the vet, she has to lose half a kilogram.", "Poor cat. Did the vet give you a diet for her?"),
            ("The vet said two spoons less in the evening.", "Two spoons less, noted."),
            ("I have to renew my passport before the summer.", "The office in Lisbon takes six weeks at the moment."),
        ),
    ),
    GROUP: (
        "Ben",
        (
            ("Who waters the garden on Wednesday?", "Mia said that she does Wednesdays."),
            ("The bins are emptied on Thursday this week.", "Thursday instead of Wednesday, because of the holiday."),
            ("We need a new lamp for the stairs, E27, warm white.", "It is on the list of the house."),
            ("The meeting of the house is on the 14th at 19:00.", "The 14th at 19:00, in the yard."),
            ("Mia found the key of the cellar.", "Good. There are three keys now."),
        ),
    ),
    ODD: (
        "José Ñíguez",
        (
            ("The café orders 12 kg of beans each week.", "12 kg a week, about 50 kg a month."),
            ("The grinder sounds wrong since Monday.", "It may be a stone. When was it cleaned?"),
        ),
    ),
}  # fmt: skip
ASKED = (
    ("What was wrong with the boiler?", "Its display showed F28: it got no gas, since the valve below it was closed."),
    ("When does Anna land?", "On Friday at 21:40, with flight TP 571."),
    ("How much is the rent from January on?", "940 euros; it goes up by 40."),
)
NOTED = (
    ("Noor lives in Lisbon since March.",),
    ("Mr Ortega looks after the boiler.",),
    ("Noor prefers tea in the evening.", "--type", "preference"),
    ("Renew the passport", "--type", "goal", "--deadline", "next friday"),
)


@dataclass(frozen=True)
class PageWorld:
    """The page is served in a thread of this process; `base` is its origin.

    `environment`: what the commands that it starts take from the process; of two pages in one process, the visited one needs its own."""

    world: World
    prepared: Prepared
    base: str
    environment: dict[str, str]

    @property
    def link(self) -> str:
        """Opens the page with the owner's rights."""
        return self.prepared.links[0]


@contextmanager
def own_world(root: Path, **settings: str) -> Iterator[World]:
    """An installation with a redis-server of its own, so that it may live longer than one test."""
    with redis_server(root / "redis", "--save", "") as (_, client, url):
        world = World(root, client, url, {"CHAT_TIMEZONE": "Europe/Lisbon", **settings})
        try:
            yield world
        finally:
            for dispatcher in world.dispatchers:
                dispatcher.stop(signal.SIGKILL)


def household(world: World, days: int) -> None:
    """Some exchanges of every chat on each of so many days, and the night after each; then typed memories."""
    chance, now = random.Random(5), time.time()
    places = dict.fromkeys(TALK, 0)
    for day in range(days, 0, -1):
        for number, (chat, (name, lines)) in enumerate(TALK.items()):
            for turn in range(chance.randint(1, 4)):
                said, answer = lines[places[chat] % len(lines)]
                places[chat] += 1
                at, task = now - day * DAY_SECONDS + turn * 1800, f"d{day}-{number}-{turn}"
                more: dict[str, Any] = {"chat_id": chat, "session": f"s{number}"}
                world.say(task, said, name=name, user_id=str(number + 1), timestamp=at, **more)
                world.say(task, answer, role="asst", timestamp=at + 6, **more)
        with patch("time.time", lambda clock=time.time, days=day - 1: clock() - days * DAY_SECONDS):
            world.night()
    for arguments in NOTED:
        world.command("hmem", "memory", "add", NOOR, *arguments)


def asked(world: World) -> None:
    """A dispatcher answers some questions of Noor's with the stand-in for Claude, so that their explanations are there. It runs on."""
    sample = world.root / "answers.jsonl"
    lines = ({"kind": "exchange", "message": message, "answer": answer} for message, answer in ASKED)
    sample.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    world.start_dispatcher(CLAUDE_STAND_IN_SAMPLE=str(sample))
    wait_for(lambda: any(int(run) for run in world.redis.hvals(keys.RELEASE)), "the release with its vectors")
    for number, (message, _) in enumerate(ASKED):
        world.enqueue(f"q{number}", message, chat_id=int(NOOR), name="Noor")
        wait_for(partial(_explained, world, number + 1), "an answer and its explanation")


def _explained(world: World, count: int) -> bool:
    return int(world.redis.llen(keys.why(NOOR))) == count


@contextmanager
def page_over(world: World, chats: str = "", port: int = 0, **settings: Any) -> Iterator[PageWorld]:
    """Serves the page; the commands that it starts have the same settings from the environment."""
    port = port or free_port()
    environment = world.variables(**{name.upper(): str(value) for name, value in settings.items()})
    with patch.dict(os.environ, environment):
        prepared = prepare(world.settings(**settings), f"127.0.0.1:{port}", chats)
        thread = threading.Thread(target=prepared.run, daemon=True)
        thread.start()
        try:
            wait_for(lambda: prepared.server.started, "the page to be served")
            yield PageWorld(world, prepared, f"http://127.0.0.1:{port}", environment)
        finally:
            prepared.server.should_exit = True
            thread.join(60)
            prepared.close()
