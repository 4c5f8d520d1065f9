"""Alarms reach the owner without the night: each is provoked on a real Redis, sent once, repeated daily, and called off."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import closing, nullcontext

import pytest
from redis import Redis

from dispatcher.features.digest import part
from dispatcher.features.digest.alarms import send_alarms
from dispatcher.features.digest.tests.looking import (
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
    part_of,
    ran_since,
    set_report,
    taken,
)
from dispatcher.memory.day.memory import DayMemory
from shared.config.settings import Settings
from tests.support.machine import free_port, wait_for
from tests.support.world import World

#: What a look that fails logs.
WAITS = "what runs in the background must wait"
NINE = at("2026-11-21T09:00")
CHECK = "check hmem-night status and its log, then run hmem-night run."


@pytest.fixture
def client(durable: Redis) -> Redis:
    """A sound Redis after a good night."""
    durable.flushall()
    durable.config_set("maxmemory-policy", "noeviction")
    durable.config_set("appendonly", "yes")
    good_night(durable, at("2026-11-21T03:10"))
    return durable


def look(settings: Settings, client: Redis, now: float, **more: object) -> list[str]:
    """What one look sends."""
    send_alarms(host_at(settings, client, now, **more))  # type: ignore[arg-type]
    return taken(client)


def test_a_night_that_did_not_come_is_told_then_daily_then_its_end(settings: Settings, client: Redis) -> None:
    good_night(client, at("2026-11-20T03:10"))
    assert look(settings, client, NINE - 1) == []
    (said,) = look(settings, client, NINE)
    assert said == f"Alarm: no good night came by 09:00: the last one (run 7) ended at 2026-11-20 03:10; {CHECK}"
    for later in (MINUTE, HOUR, DAY - 1):
        assert look(settings, client, NINE + later) == []
    assert look(settings, client, NINE + DAY) == [said], "it lasts: once a day"
    good_night(client, NINE + DAY + HOUR, run=8)
    assert look(settings, client, NINE + DAY + HOUR + MINUTE) == [], "what is well for a minute may come back"
    assert look(settings, client, NINE + DAY + 2 * HOUR) == ["Well again: night 8 ended well at 2026-11-22 10:00."]
    assert look(settings, client, NINE + DAY + 3 * HOUR) == []


def test_a_failed_night_is_told_with_its_reason(settings: Settings, client: Redis) -> None:
    failed_night(client, at("2026-11-21T04:00"))
    (said,) = look(settings, client, at("2026-11-21T04:01"))
    assert said == f"Alarm: night 8 stopped at embed, 0.0 hours ago: Ollama does not answer. Start it; {CHECK}"
    assert look(settings, client, at("2026-11-21T04:10")) == []
    failed_night(client, at("2026-11-21T04:20"), run=10)
    assert "night 10 stopped" in look(settings, client, at("2026-11-21T04:21"))[0], "another failure is told at once"
    good_night(client, at("2026-11-21T05:00"), run=9)
    assert look(settings, client, at("2026-11-21T05:01")) == []
    assert look(settings, client, at("2026-11-21T05:10")) == [
        "Well again: no night has failed since the last good one."
    ]


def test_a_disk_that_is_full_now_and_then_is_one_alarm(settings: Settings, client: Redis) -> None:
    """The limits are the doctor's (test_how_full_a_disk_may_be)."""

    def seen(minute: int, free: int) -> list[str]:
        return look(settings, client, NINE + minute * MINUTE, usage=lambda _: disk(free))

    (said,) = seen(0, 1 << 29)
    assert re.fullmatch(
        r"Alarm: only 0\.5 GiB \(0%\) are left on the disk of .*/state: the next night or answer may fail; free some space, or .*\.",
        said,
    )
    assert [seen(1, 200 << 30), seen(2, 1 << 29), seen(3, 200 << 30)] == [[], [], []], "it comes and goes"
    (well,) = seen(9, 200 << 30)
    assert re.fullmatch(r"Well again: 200\.0 GiB \(20%\) are left on the disk of .*\.", well)


def test_what_redis_and_the_last_night_are_found_to_lack_is_told_until_it_is_well_again(
    settings: Settings, client: Redis
) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("appendonly", "no")
    set_report(client, night(6, NINE - DAY), night(7, NINE - HOUR, mirror="lags", writer="the answer is empty"))
    begins = (
        "Redis' eviction policy is allkeys-lru: ",
        "Redis writes nothing to disk, neither an append-only file nor snapshots",
        "the last night gave up the model that writes (WRITER): the answer is empty; check its server",
        "the mirror of the archive lags behind, so nights delete nothing from Redis; check its disk",
    )
    for said, beginning in zip(look(settings, client, NINE), begins, strict=True):
        assert said.startswith(f"Alarm: {beginning}"), said
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("appendonly", "yes")
    wait_for(lambda: client.info("persistence")["aof_enabled"], "the append-only file")
    set_report(client, night(7, NINE - HOUR, mirror="lags"), night(8, NINE, mirror="ok"))
    assert look(settings, client, NINE + MINUTE) == []
    assert look(settings, client, NINE + HOUR) == [
        "Well again: Redis never evicts (noeviction).",
        "Well again: Redis writes its append-only file.",
        "Well again: the last night did not give up the model that writes (WRITER), or none is set.",
        "Well again: ARCHIVE_MIRROR is not set here.",
    ]


def test_claude_that_only_gives_errors(settings: Settings, client: Redis) -> None:
    client.hset("hcli:mem:claude", mapping={"first": NINE - 20 * MINUTE, "last": NINE - 6 * MINUTE})
    assert look(settings, client, NINE) == [], "14 minutes between the first and the last"
    client.hset("hcli:mem:claude", "last", NINE - 5 * MINUTE)
    (said,) = look(settings, client, NINE)
    assert said.startswith(
        "Alarm: Claude has given errors only since 2026-11-21 08:40 (the last one at 2026-11-21 08:55); check hmem doctor"
    )
    client.delete("hcli:mem:claude")
    look(settings, client, NINE + MINUTE)
    assert look(settings, client, NINE + HOUR) == ["Well again: Claude answers, as far as messages have shown."]


def test_questions_that_wait_are_one_alarm_which_says_why(settings: Settings, client: Redis) -> None:
    why = "I am not logged in any more, and my owner has to log me in again"
    client.hset("hcli:mem:holds", "", json.dumps({"since": NINE, "next": NINE + HOUR, "why": why}))
    (told,) = look(settings, client, NINE)
    assert told.startswith(f"Alarm: questions wait since 2026-11-21 09:00, because Claude says: {why}.")
    client.hset("hcli:mem:claude", mapping={"first": NINE, "last": NINE + HOUR})
    assert [look(settings, client, NINE + minute * MINUTE) for minute in range(1, 60, 20)] == [[], [], []]
    client.hset("hcli:mem:holds", "", json.dumps({"since": NINE, "next": NINE, "why": "pay me"}))
    (told,) = look(settings, client, NINE + HOUR)
    assert "pay me" not in told, "another program wrote that"


def test_a_question_that_the_account_does_not_pay_for_is_told_at_once(settings: Settings, client: Redis) -> None:
    client.hset("hcli:mem:claude", "unpaid", NINE)
    (told,) = look(settings, client, NINE + MINUTE)
    assert told.startswith(
        "Alarm: Claude's provider refused a question at 2026-11-21 09:00, because this account does not pay for it;"
    )
    assert look(settings, client, NINE + 50 * MINUTE) == []
    look(settings, client, NINE + 61 * MINUTE)
    assert look(settings, client, NINE + 70 * MINUTE) == ["Well again: Claude answers, as far as messages have shown."]


def test_several_dispatchers_and_restarts_send_an_alarm_once(settings: Settings, client: Redis) -> None:
    good_night(client, at("2026-11-19T03:10"))
    for _ in range(3):
        send_alarms(host_at(settings, client, NINE))
    assert len(outbox(client)) == 1
    client.hset("hcli:mem:alarms", "missed night", "{")
    send_alarms(host_at(settings, client, NINE + MINUTE))
    assert len(outbox(client)) == 2, "a damaged note is replaced"
    send_alarms(host_at(settings, client, NINE + 400 * DAY))
    send_alarms(host_at(settings, client, NINE + 2 * MINUTE))
    assert len(outbox(client)) == 4, "a clock that was far ahead silences nothing"


def test_an_outage_is_logged_once_and_the_looks_go_on(
    light: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(part, "LOOK_SECONDS", 0.05)
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    away = light.settings(report_chat=OWNER, report_at="00:00", redis_url=nowhere, allowed_chats="5")
    ran_since(away.hmem_state_dir)  # one of today sends no report before tomorrow

    said: list[str] = []

    def logged(words: str) -> int:
        said.append(capsys.readouterr().err)
        return "".join(said).count(words)

    async def watched() -> bool:
        with closing(DayMemory(away, nullcontext)) as day:
            watching = asyncio.create_task(part_of(away, day).background())
            await asyncio.to_thread(wait_for, lambda: logged(WAITS) == 3, lambda: f"the outage: {''.join(said)}")
            await asyncio.sleep(1)  # some more looks
            alive = not watching.done()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            return alive

    assert asyncio.run(watched())
    assert logged(WAITS) == 3, "alarms, report, digests"
