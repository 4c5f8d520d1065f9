"""`hmem search`: what the release and the day hold, together."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext

from dispatcher.cli.arguments import sides
from dispatcher.cli.search import find
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.search import SearchResult
from dispatcher.prompt.context import DEGRADED, SWITCHED_OFF, plain_reason
from shared.search.types import Query
from shared.turns.records import Turn
from tests.support.machine import free_port
from tests.support.world import World

BOILER, HUMMING, NOW = "the boiler broke down on Monday", "the boiler has been humming since breakfast", time.time()


def said_today(world: World, *texts: str, chat: str = "9912") -> None:
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        turns = [Turn(f"today{n}", "user", chat, text, NOW - 60 + n) for n, text in enumerate(texts)]
        day.upkeep.store_turns(turns)


def hits(found: SearchResult) -> list[str]:
    return [turn for hit in found.recalled.hits for turn in hit.chunk.turn_ids]


def test_release_and_today_are_ranked_together(light: World) -> None:
    light.say("t1", BOILER)
    light.night()
    said_today(light, HUMMING)
    done = light.command("hmem", "search", "9912", "boiler humming")
    assert [line.split()[-1] for line in done.stdout.splitlines()[::2]] == ["today0:user#1", "t1:user#1"]
    assert "humming since breakfast" in done.stdout
    assert done.stdout.startswith(" 1.  "), "no score that the order contradicts"
    alone = light.command("hmem", "search", "boiler humming")
    assert (alone.stdout, alone.stderr.splitlines()[0]) == (done.stdout, "In chat 9912, the only one.")
    assert done.stderr.splitlines()[0].startswith("2 hits in ")
    assert done.stderr.splitlines()[0].endswith(" ms from release 1 and today; times in UTC")
    plain = "note: Only words were compared, not meanings, so what was said in other words may be missing: release 1 was built without a "
    assert done.stderr.splitlines()[1].startswith(plain)
    assert done.stderr.splitlines()[1].endswith(". hmem doctor says whether there is anything to do.")
    told = json.loads(light.command("hmem", "search", "9912", "boiler humming", "--json").stdout)
    assert (told["release"], [hit["turn_ids"] for hit in told["hits"]]) == (1, [["today0:user"], ["t1:user"]])
    assert hits(find(light.settings(), Query("77", "boiler humming", 5))) == [], "another chat"


def test_whatever_was_missing_is_said_in_plain_words() -> None:
    for beginning in DEGRADED:
        said = plain_reason(f"{beginning}: It is away. Start it.")
        assert said.endswith(": It is away. Start it.") or "hmem doctor" in said
        assert beginning not in said or beginning == SWITCHED_OFF
    assert plain_reason("memory did not answer in time") == "Claude answered without memory, which took too long."


def test_a_store_that_is_away_leaves_the_release_and_is_named(light: World) -> None:
    light.say("t1", BOILER)
    light.night()
    away = f"postgresql://hmem:pa55word@127.0.0.1:{free_port()}/hmem"
    found = find(light.settings(day_store_url=away), Query("9912", "boiler", 5))
    assert (hits(found), sides(found.run, today=found.today)) == (["t1:user"], "release 1")
    assert found.recalled.degraded[-1].startswith("no memory of the day: The day store at ")
    assert "pa55word" not in str(found.recalled.degraded)
    switched_off = find(light.settings(day_store_url="none"), Query("9912", "boiler", 5))
    assert (hits(switched_off), sides(switched_off.run, today=switched_off.today)) == (["t1:user"], "release 1")
    assert not [why for why in switched_off.recalled.degraded if "memory of the day" in why]
