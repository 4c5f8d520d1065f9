"""Times that people are shown are those of CHAT_TIMEZONE, and say so; JSON has the offset."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from dispatcher.memory.dates.user_dates import read_since, read_until
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


def test_a_time_in_words_looks_back() -> None:
    zone = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 11, 25, 14, 30, tzinfo=zone).timestamp()

    def span(said: str) -> tuple[str, str]:
        first, end = read_since(said, now, zone), read_until(said, now, zone)
        assert first is not None
        assert end is not None
        one, other = (datetime.fromtimestamp(at, zone).strftime("%m-%d %H:%M") for at in (first, end))
        return one, other

    whole_day = {
        "11-24": "yesterday|gestern|hier|ayer|вчера|24.11.|24 November",
        "11-20": "last Friday|letzten Freitag|vendredi dernier|el viernes pasado|в прошлую пятницу",
        "11-22": "3 days ago|vor 3 Tagen|il y a 3 jours|hace 3 días|3 дня назад",
        "11-03": "3 November|3. November|3 novembre|el 3 de noviembre|3 ноября|3.11.|since 3 November",
    }
    for day, phrases in whole_day.items():
        for said in phrases.split("|"):
            first, end = span(said)
            assert first == f"{day} 00:00", said
            assert end == f"{day[:3]}{int(day[3:]) + 1:02} 00:00", said
    for said in "yesterday at 15:00|gestern um 15 Uhr|hier à 15h|ayer a las 15:00|вчера в 15:00".split("|"):
        assert span(said) == ("11-24 15:00",) * 2, said
    for said in "last week|letzte Woche|la semaine dernière|la semana pasada|на прошлой неделе".split("|"):
        assert span(said) == ("11-16 00:00", "11-23 00:00"), said
