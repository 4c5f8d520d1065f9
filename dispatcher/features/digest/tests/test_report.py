"""The morning report: what it says, and that it is sent once a day."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from redis import Redis

from dispatcher.features.digest.part import send_report
from dispatcher.features.digest.report import Morning, report_text
from dispatcher.features.digest.tests.looking import (
    BERLIN,
    DAY,
    HOUR,
    MINUTE,
    OWNER,
    at,
    disk,
    failed_night,
    good_night,
    host_at,
    night,
    outbox,
    set_report,
    taken,
)
from dispatcher.health.nights import read_records
from shared.config.settings import Settings
from shared.release.retention import write_pin
from tests.support.world import World

EIGHT = at("2026-11-21T08:00")


def sent(settings: Settings, redis: Redis, now: float) -> list[str]:
    send_report(host_at(settings, redis, now, usage=lambda _: disk(20 << 30, 100 << 30)))
    return taken(redis)


def test_when_all_is_well_one_line_is_the_whole_report() -> None:
    nights = read_records(
        json.dumps({"v": 1, "nights": [night(41, EIGHT - DAY), night(42, EIGHT - HOUR, new=46)]}).encode()
    )
    assert report_text(Morning(EIGHT, BERLIN, nights, (42, EIGHT - HOUR), 41)) == "All well, 46 messages remembered."
    quiet = [nights[-1].model_copy(update={"new": 0})]
    assert report_text(Morning(EIGHT, BERLIN, quiet, (42, EIGHT - HOUR), 41)) == "All well, nothing new to remember."


def test_the_report_of_a_morning_that_needs_the_owner(settings: Settings, redis: Redis) -> None:
    set_report(
        redis, night(40, at("2026-11-19T03:04"), new=0), night(41, at("2026-11-20T03:05"), gate={"asked": 100, "found": 50}),
        night(42, at("2026-11-21T03:04"), new=64),
    )  # fmt: skip
    good_night(redis, at("2026-11-21T03:04"), run=42)
    (text,) = sent(settings, redis, EIGHT)
    before, _, needs = text.partition("Needs you:")
    assert before.splitlines() == [
        "Good morning. Saturday 21 November 2026", "Night: run 42 ended well at 2026-11-21 03:04: 64 messages remembered.",
        "New messages: 64 ▁█▅", "Recall check: 97 of 100 questions found █▅█", "Took: 4 min ███", "Free on the night host: 41.0 GiB ███",
        "Disk: 20.0 GiB free here.",
    ]  # fmt: skip
    assert needs.count("•") == 1, "this test's Redis writes nothing to disk"


def test_what_needs_the_owner(settings: Settings, redis: Redis, light: World) -> None:
    good_night(redis, at("2026-11-21T03:04"), run=42)
    failed_night(redis, at("2026-11-21T05:00"), run=43)
    redis.rpush("hcli:mem:dead", "x", "y")
    light.memory_dir.mkdir()
    write_pin(light.memory_dir, 5)
    (text,) = sent(settings, redis, EIGHT)
    needs = text.partition("Needs you:\n")[2].splitlines()
    assert needs[-1].startswith(
        "• Night 43 stopped at embed, 3.0 hours ago: Ollama does not answer. Start it; check hmem-night status"
    )
    assert any(
        line.startswith("• Release 5 is pinned since") and "hmem release rollback --unpin" in line for line in needs
    )
    letters = "• 2 messages are unanswered in the dead letters"
    assert any(line.startswith(letters) and "hmem dead" in line for line in needs)


def test_it_is_sent_once_a_day_from_report_at_on_whoever_looks(settings: Settings, redis: Redis) -> None:
    good_night(redis, at("2026-11-21T03:04"), run=42)
    assert sent(settings, redis, EIGHT - 1) == []
    send_report(host_at(settings, redis, EIGHT))
    (message,) = outbox(redis)
    assert (message["id"], message["chat_id"]) == ("report-2026-11-21", OWNER)
    redis.delete("hcli:mem:outbox:main")
    for later in (0, MINUTE, HOUR, 15 * HOUR):
        assert sent(settings, redis, EIGHT + later) == []
    (second,) = sent(settings, redis, EIGHT + DAY + 5 * HOUR)  # it was down at eight
    assert "Night: none has ended well since the last report; the last one (run 42) ended 34 hours ago." in second


@pytest.mark.parametrize("first", ["2026-10-24", "2026-03-28"])
def test_once_a_day_where_clocks_change(settings: Settings, redis: Redis, first: str) -> None:
    """A report at 02:30 of the second day: that time comes twice, or not at all."""
    early, begin = settings.changed(report_at="02:30"), at(f"{first}T00:00")
    said = [sent(early, redis, begin + quarter * 15 * MINUTE) for quarter in range(3 * 96)]
    assert sum(map(len, said)) == 3


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(night(1, 1.0))), _JSON), st.integers(-5, 10**18), st.floats())
@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_the_night_wrote_there_is_a_report(odd: dict[str, object], run: int, ended: float) -> None:
    raw = json.dumps(
        {"v": 1, "nights": [{"run": run, "finished_at": ended} | odd, night(3, EIGHT - HOUR) | odd, odd, 5]}
    )
    text = report_text(Morning(EIGHT, BERLIN, read_records(raw.encode())))
    assert text.startswith(("Good morning.", "All well, "))
