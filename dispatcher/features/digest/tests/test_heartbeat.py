"""HEARTBEAT_URL, against a loopback service: once a night, again after a failure, in the way of the service, and never in a log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from dispatcher.features.digest.heartbeat import address, beat
from dispatcher.features.digest.tests.looking import DAY, HOUR, MINUTE, at, failed_night, good_night
from dispatcher.health.findings import Setup
from shared.config.settings import load_settings
from tests.servers.heartbeat import HeartbeatServer
from tests.support.machine import free_port

NOW = at("2026-11-21T04:00")


@pytest.fixture
def service() -> Iterator[HeartbeatServer]:
    with HeartbeatServer() as running:
        yield running


def look(redis: Redis, url: str, now: float) -> None:
    beat(Setup(load_settings(heartbeat_url=url), redis, lambda: now))


def test_once_for_each_night_good_or_failed_whoever_looks(redis: Redis, service: HeartbeatServer) -> None:
    url = f"{service.url}/ping/4711"
    look(redis, url, NOW)
    assert service.asked == [], "there was no night"
    good_night(redis, NOW - 60, run=7)
    for minute in range(3):
        look(redis, url, NOW + minute * MINUTE)
    assert service.asked == ["/ping/4711"]
    failed_night(redis, NOW + DAY, run=8)
    look(redis, url, NOW + DAY)
    look(redis, url, NOW + DAY + MINUTE)
    good_night(redis, NOW + DAY + HOUR, run=9)
    look(redis, url, NOW + DAY + HOUR)
    assert service.asked == ["/ping/4711", "/ping/4711/fail", "/ping/4711"]
    kuma = address("https://status.example.org/api/push/4711?status=up", well=False)
    assert kuma == "https://status.example.org/api/push/4711?status=down&msg=the+night+failed&ping="


def test_a_call_that_fails_is_repeated_by_the_next_look(redis: Redis, service: HeartbeatServer) -> None:
    good_night(redis, NOW)
    service.statuses = [500, 404]
    for minute in range(4):
        look(redis, f"{service.url}/ping/4711", NOW + minute * MINUTE)
    assert len(service.asked) == 3


def test_why_a_call_failed_never_names_the_address(redis: Redis, capsys: pytest.CaptureFixture[str]) -> None:
    good_night(redis, NOW)
    nowhere = f"127.0.0.1:{free_port()}/very-secret", "no-such-host.invalid/very-secret", "127.0.0.1:1/very secret"
    for url in (f"http://{place}" for place in nowhere):
        look(redis, url, NOW)
        redis.delete("hcli:mem:morning")
    said = capsys.readouterr().err
    assert said.count("HEARTBEAT_URL could not be called") == 3
    assert "secret" not in said
    assert "no-such-host" not in said
