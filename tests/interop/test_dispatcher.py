"""h-cli's published dispatcher beside our bot, over a real Redis with our users: scripts/test --interop DIR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.peers import answer_to
from tests.interop.stage import CHATS, PATIENCE_SECONDS, Stage, Talker, side_by_side, stage
from tests.support.day.telegram_bot import Bot
from tests.support.machine import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Seconds after which h-cli's dispatcher ends Claude here (280 in its file); what it says then is its own.
CLAUDE_SECONDS = 15
TIMED_OUT = "Claude Code timed out"
#: What each of the five people does, one after the other; "cancel" are two: one is in the making, one is taken back.
EXCHANGES = ("plain", "long", "cancel", "cancelled", "new", "plain", "timeout", "plain", "status", "plain")


@pytest.fixture
def people(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Our bot and h-cli's dispatcher at work."""
    with stage(request, tmp_path) as made:
        made.peers.dispatcher(made.guarded.urls["hcli-dispatcher"], made.claude, seconds=CLAUDE_SECONDS)
        ours = World(made.world.root, made.redis, made.guarded.urls["bot"], made.world.environment)
        bot = Bot(ours, made.api, ALLOWED_CHATS=",".join(map(str, CHATS)))
        yield made
        assert bot.stop() == 0
        assert "Traceback" not in bot.log.read_text()


def test_fifty_exchanges(people: Stage) -> None:
    assert len(EXCHANGES) * len(CHATS) == 50
    side_by_side(*(lambda chat=chat: Person(people, chat).converses() for chat in CHATS))
    wait_for(lambda: people.redis.hlen("hcli:mem:bot:waiting:main") == 0, "all to be delivered")
    for chat in CHATS:
        assert "…" not in people.api.texts(chat), "each placeholder has become an answer"
    assert not people.redis.keys("hcli:pending:*")
    assert not people.redis.keys("hcli:results:*")
    assert people.refused() == []
    assert "Traceback" not in "\n".join(peer.said for peer in people.peers.processes)
    the_doctor_names_what_expires(people)
    the_night_takes_it_all(people)


def the_doctor_names_what_expires(people: Stage) -> None:
    done = people.world.command("hmem", "doctor", "--json", check=False, REDIS_URL=people.guarded.urls["owner"])
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["expiry"]["state"] == "problem"
    assert "in 4.0: h-cli's dispatcher wrote them" in found["expiry"]["sentence"]


def the_night_takes_it_all(people: Stage) -> None:
    """Turns with a life of four hours are archived and deleted like any others."""
    turns = len(people.turns("user")) + len(people.turns("asst"))
    done = people.world.command("hmem-night", "run", "--json", REDIS_URL=people.guarded.urls["night"])
    (night,) = json.loads(done.stdout)
    assert (night["new"], night["quarantined"]) == (turns, 0)
    assert not people.turns("user")


class Person(Talker):
    def converses(self) -> None:
        for number, kind in enumerate(EXCHANGES):
            if kind != "cancelled":
                getattr(self, f"_{kind}")(number)

    def _plain(self, number: int) -> None:
        question = self._question(number)
        seen = self.people.sees(self.chat, self.people.say(self.chat, question), answer_to(question))
        assert seen.splitlines() == [answer_to(question)]

    def _long(self, number: int) -> None:
        """All lines in their order, in several messages."""
        question = self._question(number, " long")
        before = self.people.say(self.chat, question)
        seen = self.people.sees(self.chat, before, answer_to(question).splitlines()[-1])
        assert [line for line in seen.splitlines() if line] == answer_to(question).splitlines()
        assert len(self.people.api.texts(self.chat)[before:]) > 1

    def _cancel(self, number: int) -> None:
        """What is queued is taken back. What is in the making h-cli's dispatcher does not end: its answer comes."""
        running = self._question(number, f" slow {self.chat}x{number}")
        before = self.people.say(self.chat, running)
        wait_for(lambda: running in self.people.claude.asked, "the model to be asked", PATIENCE_SECONDS)
        self.people.say(self.chat, f"question {self.chat} {number + 1}?")
        wait_for(lambda: len(self.people.api.texts(self.chat)) == before + 2, "its placeholder")
        self.people.say(self.chat, "/cancel")
        self.people.sees(self.chat, before, "Cancelled before processing: 1.", "Cancelled.")
        self.people.claude.let_go(f"{self.chat}x{number}")
        self.people.sees(self.chat, before, answer_to(running))

    def _new(self, number: int) -> None:
        """h-cli's dispatcher finds the history without a session, keeps it in a file, and tells Claude of that file's words."""
        self.people.sees(self.chat, self.people.say(self.chat, "/new"), "I started a new conversation.")
        before = list(self._asked)
        self._plain(number)
        chunks = "".join(one.read_text() for one in self.people.peers.chunks.glob(f"{self.chat}/chunk_*"))
        assert all(one in chunks for one in before), "its file holds what was said"
        asked = self.people.claude.requests_for(self._asked[-1])[-1]
        assert not any(one in json.dumps(asked["messages"]) for one in before), "it is another conversation"
        assert before[0] in json.dumps(asked["system"]), "of which the earlier one is known"

    def _timeout(self, number: int) -> None:
        question = self._question(number, f" slow {self.chat}x{number}")
        self.people.sees(self.chat, self.people.say(self.chat, question), TIMED_OUT)

    def _status(self, number: int) -> None:
        seen = self.people.sees(self.chat, self.people.say(self.chat, "/status"), "Queued")
        assert "No dispatcher is running" not in seen, seen
