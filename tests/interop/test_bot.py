"""h-cli's published bot beside our dispatcher, over a real Redis with our users: scripts/test --interop DIR."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.peers import answer_to
from tests.interop.stage import CHATS, PATIENCE_SECONDS, Stage, Talker, side_by_side, stage
from tests.support.machine import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Seconds that h-cli's bot waits for an answer here (300 where nothing else is set).
BOT_WAITS = 25
#: What each of the five people does, one after the other.
EXCHANGES = ("plain", "cancel", "plain", "long", "new", "timeout", "plain", "cancel", "memory", "plain")


@pytest.fixture
def people(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """h-cli's bot and our dispatcher at work."""
    with stage(request, tmp_path) as made:
        made.world.start_dispatcher(MAX_CONCURRENT_TASKS=str(len(CHATS)))
        made.peers.bot(made.guarded.urls["hcli-bot"], made.api, CHATS, patience=BOT_WAITS)
        yield made


def test_fifty_exchanges(people: Stage) -> None:
    assert len(EXCHANGES) * len(CHATS) == 50
    side_by_side(*(lambda chat=chat: Person(people, chat).converses() for chat in CHATS))
    nothing_is_left(people)


def nothing_is_left(people: Stage) -> None:
    """What was shown, and only that, is stored as said; no lists, locks or refusals remain; nobody has logged a fault."""
    answers = [text for chat in CHATS for text in people.api.texts(chat)]
    for task_id, said in people.turns("asst").items():
        question = people.turns("user")[task_id]
        assert said == answer_to(question)
        assert any(f"Answer to {question}" in shown for shown in answers), question
    stored = {people.turns("user")[task_id] for task_id in people.turns("asst")}
    expected = {
        f"question {chat} {number}"
        for chat in CHATS
        for number, kind in enumerate(EXCHANGES)
        if kind in ("plain", "long", "new")
    }
    assert {" ".join(one.rstrip("?").split()[:3]) for one in stored} == expected
    assert people.redis.hlen("hcli:mem:busy") == 0
    assert not people.redis.keys("hcli:pending:*")
    assert not people.redis.keys("hcli:mem:inflight:*")
    assert people.redis.llen("hcli:mem:dead") == 0
    assert people.refused() == []
    assert "Traceback" not in "\n".join(peer.said for peer in people.peers.processes)
    log = people.world.dispatchers[0].log.read_text()
    assert "error" not in log.replace("outcome=error", ""), log


class Person(Talker):
    def converses(self) -> None:
        for number, kind in enumerate(EXCHANGES):
            getattr(self, f"_{kind}")(number)

    def _plain(self, number: int) -> None:
        question = self._question(number)
        seen = self.people.sees(self.chat, self.people.say(self.chat, question), answer_to(question), "↑")
        assert seen.count(answer_to(question)) == 1
        assert "claude-" in seen.splitlines()[-1], "the model that answered"

    def _long(self, number: int) -> None:
        """All lines in their order, in several messages."""
        question = self._question(number, " long")
        seen = self.people.sees(
            self.chat, self.people.say(self.chat, question), answer_to(question).splitlines()[-1], "↑"
        )
        lines = [line for line in seen.splitlines() if question in line]
        assert lines == answer_to(question).splitlines()

    def _new(self, number: int) -> None:
        before = self.people.say(self.chat, "/new")
        self.people.sees(self.chat, before, "Context cleared")
        chunks = "".join(one.read_text() for one in self.people.peers.chunks.glob(f"{self.chat}/chunk_*"))
        assert all(one in chunks for one in self._asked), "its file holds what was said"
        self._plain(number)
        told = json.dumps(self._request(self._asked[-1])["messages"])
        assert not any(one in told for one in self._asked[:-1]), "the model is told nothing of it"

    def _cancel(self, number: int) -> None:
        question = self._in_the_making(number)
        self.people.say(self.chat, "/cancel")
        self._ended_unseen(question, "ancelled.")

    def _timeout(self, number: int) -> None:
        self._ended_unseen(self._in_the_making(number), f"timed out after {BOT_WAITS}s")

    def _in_the_making(self, number: int) -> str:
        question = self._question(number, f" slow {self.chat}x{number}")
        self._before = self.people.say(self.chat, question)
        wait_for(lambda: question in self.people.claude.asked, "the model to be asked", PATIENCE_SECONDS)
        return question

    def _ended_unseen(self, question: str, words: str) -> None:
        """The person is told, Claude is stopped though its model never answers, the question is kept, and nothing is stored as said."""
        self.people.sees(self.chat, self._before, words)
        wait_for(lambda: not self.people.redis.hexists("hcli:mem:busy", str(self.chat)), f"the end of {question}")
        task_id = self.people.task_of(question)
        assert task_id not in self.people.turns("asst")

    def _memory(self, number: int) -> None:
        """h-cli's bot drops commands that it does not know; behind /run they arrive."""
        before = self.people.say(self.chat, "/memory")
        self.people.say(self.chat, f"/run /memory add The code of {self.chat} is {number}711.")
        self.people.sees(self.chat, before, "Saved as number")
        before = self.people.say(self.chat, "/run /memory")
        self.people.sees(self.chat, before, f"{number}711")

    def _request(self, question: str) -> dict[str, Any]:
        return self.people.claude.requests_for(question)[-1]
