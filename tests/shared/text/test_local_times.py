"""Times that people are shown are those of CHAT_TIMEZONE, and say so; JSON has the offset."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from dispatcher.cli.arguments import given_times
from shared.errors import InvalidInput
from tests.support.world import World

#: 2026-11-19 08:06:40 in UTC, when it is the next day there.
SAID = 1_795_075_600.0
ZONE = "Pacific/Kiritimati"


@pytest.mark.slow
def test_every_command_shows_the_chats_clock(light: World) -> None:
    light.environment["CHAT_TIMEZONE"] = ZONE
    day = datetime.fromtimestamp(SAID, ZoneInfo(ZONE))
    assert day.strftime("%Y-%m-%d %H:%M") == "2026-11-19 22:06"
    light.say("t1", "The boiler stopped.", timestamp=SAID)
    light.night()
    today = datetime.now(ZoneInfo(ZONE)).strftime("%Y-%m-%d")

    found = light.command("hmem", "search", "9912", "boiler")
    assert "2026-11-19 22:06  t1:user#1" in found.stdout
    assert f"times in {ZONE}" in found.stderr
    listed = light.command("hmem", "release", "list")
    assert re.search(rf"1  {today} \d\d:\d\d  ", listed.stdout)
    assert f"Times are in {ZONE}." in listed.stderr
    assert re.match(rf"{today} \d\d:\d\d \({ZONE}\)  Night 1 done", light.command("hmem-night", "status").stdout)
    folder = light.root / "export"
    light.command("hmem", "export", "9912", "--out", str(folder))
    readme = (folder / "README.txt").read_text(encoding="utf-8")
    assert re.search(rf"exported {today} \d\d:\d\d\. Times are in {ZONE}; the JSON files include the offset", readme)
    assert "22:06" in (folder / "conversation.md").read_text(encoding="utf-8")
    told = light.command("hmem", "forget", "--chat=9912").stdout
    assert "2026-11-19 22:06" in told


def test_a_period_is_of_the_chats_clock_and_includes_its_last_day() -> None:
    zone = ZoneInfo(ZONE)
    day = datetime(2026, 11, 19, tzinfo=zone).timestamp()
    assert given_times("2026-11-19", "2026-11-19", zone) == (day, day + 86_400)
    assert given_times("2026-11-19T10:00", "2026-11-19T11:00", zone) == (day + 36_000, day + 39_600)
    assert given_times(str(day), None, zone) == (day, None)
    for since, until in (("last Friday", None), (None, "soon")):
        with pytest.raises(InvalidInput, match=f"{'--since' if since else '--until'} .* is not a time"):
            given_times(since, until, zone)
