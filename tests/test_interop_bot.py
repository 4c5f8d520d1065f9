"""h-cli's published bot beside our dispatcher, over a real Redis with our users: scripts/test --interop DIR."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_for
from tests.interop.peers import answer_to
from tests.interop.stage import CHATS, Stage, side_by_side, stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def people(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with stage(request, tmp_path) as made:
        yield made


def test_a_message_is_answered(people: Stage) -> None:
    people.world.start_dispatcher()
    people.peers.bot(people.guarded.urls["bot"], people.api, CHATS)
    before = people.say(CHATS[0], "question one?")
    print(people.sees(CHATS[0], before, answer_to("question one?"), "↑"))
    assert people.refused() == []


def test_cancels(people: Stage) -> None:
    people.world.start_dispatcher()
    people.peers.bot(people.guarded.urls["bot"], people.api, CHATS)
    missed = []
    for number in range(10):
        chat = CHATS[number % 5]
        q = f"question c{number} slow w{number}?"
        before = people.say(chat, q)
        wait_for(lambda: q in people.claude.asked, "asked", 60)
        people.say(chat, "/cancel")
        people.sees(chat, before, "Task cancelled.")
        try:
            wait_for(lambda: people.redis.hlen("hcli:mem:busy") == 0, "end", 3)
        except BaseException as e:
            missed.append(number)
            people.claude.let_go(f"w{number}")
            wait_for(lambda: people.redis.hlen("hcli:mem:busy") == 0, "end", 30)
    print("missed", missed, people.turns("asst"))
    assert not missed


def test_timeouts(people: Stage) -> None:
    people.world.start_dispatcher()
    people.peers.bot(people.guarded.urls["bot"], people.api, CHATS, patience=4)
    q = "question t slow x?"
    before = people.say(CHATS[0], q)
    print(people.sees(CHATS[0], before, "timed out"))
    people.claude.let_go("x")
    wait_for(lambda: people.redis.hlen("hcli:mem:busy") == 0, "end", 30)
    print(people.turns("user"), people.turns("asst"), people.redis.keys("hcli:results:*"))
    assert not people.turns("asst")
