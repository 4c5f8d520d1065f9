"""That the check `stateful` would find what is wrong."""

from __future__ import annotations

import shutil

import pytest

from tests.chaos.checks.stateful import Broken, Life, life_in
from tests.chaos.harness.report import Outcome
from tests.support.world import World

pytestmark = pytest.mark.chaos


@pytest.fixture
def life(light: World) -> Life:
    """A history that has gone well so far."""
    made = life_in(light, Outcome())()
    made.exchange("9912")
    made.whole_night()
    made.reader_restarts()
    made.half_exchange("-100123")
    made.whole_night()
    all_holds(made)
    return made


def all_holds(life: Life) -> None:
    life.the_promises_hold()
    life.a_reader_keeps_its_release()
    life.a_chat_recalls_only_what_it_said()


def test_a_turn_deleted_too_early_breaks_it(life: Life) -> None:
    life.half_exchange("9912")
    life.world.redis.flushall()
    with pytest.raises(Broken, match="lost: hcli:memory:t2:user"):
        all_holds(life)


def test_a_turn_that_left_redis_and_is_not_found_breaks_it(life: Life) -> None:
    """Archived and flushed before it is in the release in use: nothing is lost, and nobody finds it."""
    life.half_exchange("9912")
    with pytest.raises(Broken, match="left Redis and is not in the release"):
        life._check_what_left({b"hcli:memory:t2:user"})


def test_a_release_that_is_gone_breaks_it(life: Life) -> None:
    shutil.rmtree((life.world.memory_dir / "current").resolve())
    with pytest.raises(Broken, match="torn: current"):
        all_holds(life)


def test_a_reader_whose_answers_change_breaks_it(life: Life) -> None:
    life.answers["9912"].append("something else")
    with pytest.raises(Broken, match="answers otherwise"):
        all_holds(life)
