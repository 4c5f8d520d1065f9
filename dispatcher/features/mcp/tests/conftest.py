"""A chat with memory of every kind, for the tests of its memory server."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from shared.turns.records import Turn
from tests.support.day.store_rows import MAY, keep, of_today
from tests.support.world import Live, World


@pytest.fixture
def talked(begun: Callable[[Live], World]) -> World:
    return begun(_talk)


def _talk(light: World) -> None:
    """A night's release, a turn of today and a fact, in one chat."""
    light.environment["CHAT_TIMEZONE"] = "Europe/Berlin"
    light.say("t1", "What is the code of the boiler?", name="Anna: the first", timestamp=MAY)
    light.say("t1", "The boiler code is 4711.", role="asst", timestamp=MAY + 60)
    light.night()
    of_today(light, Turn("t2", "user", "9912", "The boiler was repaired by Mr Ott.", time.time() - 60, "Anna"))
    keep(light, "The boiler is a Vaillant")
