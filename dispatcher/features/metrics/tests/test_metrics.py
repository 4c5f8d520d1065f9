"""The metrics endpoint over real HTTP, with a real Redis: what it tells, what it never tells, and what it does when something is away."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis
from structlog.testing import capture_logs

from dispatcher.answering.hooks import OUTCOMES
from dispatcher.features.metrics.gauges import GAUGES
from dispatcher.features.metrics.part import MetricsPart
from dispatcher.prompt.context import Context
from dispatcher.prompt.render import PromptPart
from shared.config.values import listen_address
from tests.support.machine import free_port
from tests.support.world import REPOSITORY, SECRET, World

CHAT, MESSAGE = "-100987654321", "the alarm code is ALRM5150"
Sample = dict[tuple[str, ...], float]
Opened = Callable[..., tuple[MetricsPart, str]]


@pytest.fixture
def opened(light: World) -> Iterator[Opened]:
    """Metrics on a free port, and their URL; closed at the end."""
    made: list[MetricsPart] = []

    def open_them(host: str = "127.0.0.1", **more: Any) -> tuple[MetricsPart, str]:
        place = f"{host}:{free_port()}"
        made.append(MetricsPart(light.settings(metrics_listen=place, **more)))
        return made[-1], f"http://{place}/metrics"

    yield open_them
    for metrics in made:
        metrics.dispatcher_stopped()


def scraped(url: str) -> tuple[str, Sample]:
    """The text, and every sample by its name and the values of its labels."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation for family in families), "a help text for each"
    return text, {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def fill(redis: Redis) -> None:
    """A day in Redis, full of what nobody but the chat may know."""
    waiting = {"task_id": "t1", "message": MESSAGE, "chat_id": CHAT, "user_id": 1}
    for age in (90, 5):
        stamp = datetime.fromtimestamp(time.time() - age, UTC).isoformat()
        redis.rpush("hcli:tasks", json.dumps(waiting | {"submitted_at": stamp}))
    redis.sadd("hcli:mem:workers", "alive", "dead")
    redis.set("hcli:mem:lease:alive", "1")
    redis.hset("hcli:mem:inflight:alive", mapping={"a:1": MESSAGE, "a:2": MESSAGE})
    redis.hset("hcli:mem:inflight:dead", "d:1", MESSAGE)
    redis.rpush("hcli:mem:dead", MESSAGE)
    redis.rpush("hcli:mem:outbox:main", MESSAGE, MESSAGE)
    redis.sadd("hcli:mem:chats", CHAT, "7")
    redis.rpush(f"hcli:mem:unconsolidated:{CHAT}", "t1:user", "t1:asst")
    redis.rpush("hcli:mem:unconsolidated:7", "t2:user")
    redis.set("hcli:mem:night:last", json.dumps({"run": 7, "finished_at": 1_800_000_000.5}))
    failed = {"run": 8, "step": "embed", "error": MESSAGE, "exit_code": 1, "at": 1_800_000_001.0}
    redis.set("hcli:mem:night:failed", json.dumps(failed))


def test_a_scrape_tells_how_it_stands_and_nothing_of_what_was_said(light: World, opened: Opened) -> None:
    light.say("t0", MESSAGE, chat_id=CHAT)
    light.night()
    fill(light.redis)
    metrics, url = opened()
    metrics.message_finished(
        "answered", 2.0, {"input_tokens": 1000, "output_tokens": 20, "cost_usd": 0.25, "num_turns": 1}
    )
    metrics.message_finished("answered", 3.0, {})
    metrics.message_finished("error", 0.2, {})
    metrics.claude_called(1.5, "claude-sonnet-5")
    metrics.claude_called(1.5, None)
    parts = [PromptPart("facts", "Facts", MESSAGE), PromptPart("recalled", "Turns", MESSAGE * 10)]
    metrics.context_composed(Context("text", parts, degraded=[f"no vector search: {MESSAGE}"], release_run=1, ms=12.0))
    text, found = scraped(url)

    standing = {name: found[(name,)] for name in GAUGES}
    age = standing.pop("hmem_queue_oldest_seconds")
    built = standing.pop("hmem_release_age_seconds")
    assert 90 <= age < 300
    assert 0 <= built < 300
    assert standing == {
        "hmem_redis_up": 1, "hmem_queue_tasks": 2, "hmem_tasks_in_flight": 3, "hmem_dead_letters": 1, "hmem_outbox_messages": 2,
        "hmem_dispatchers": 1, "hmem_unconsolidated_turns": 3, "hmem_night_last_success_timestamp_seconds": 1_800_000_000.5,
        "hmem_night_failed": 1, "hmem_release_run": 1,
    }  # fmt: skip
    assert {outcome: found["hmem_tasks_total", outcome] for outcome in OUTCOMES} == {
        "answered": 2, "error": 1, "refused": 0, "cancelled": 0, "dead_lettered": 0, "declined": 0, "repeated": 0,
    }  # fmt: skip
    assert (found["hmem_task_seconds_count",], found["hmem_task_seconds_sum",]) == (3, 5.2)
    assert (found["hmem_claude_seconds_count", "sonnet"], found["hmem_claude_seconds_count", "default"]) == (1, 1)
    assert (found["hmem_claude_tokens_total", "input"], found["hmem_claude_tokens_total", "output"]) == (1000, 20)
    assert found["hmem_claude_cost_dollars_total",] == 0.25
    assert found["hmem_context_tokens_sum", "facts"] == -(-len(MESSAGE) // 4)
    assert found["hmem_context_tokens_count", "recalled"] == 1
    assert found["hmem_lookup_seconds_sum",] == 0.012
    assert (found["hmem_context_degraded_total", "vectors"], found["hmem_context_degraded_total", "day"]) == (1, 0)
    assert found["process_resident_memory_bytes",] > 0
    for secret in (CHAT, CHAT.lstrip("-"), "alarm", "ALRM5150", SECRET, "t1:"):
        assert secret not in text, secret


def test_no_label_takes_what_it_is_given(opened: Opened) -> None:
    """Whatever comes in, the number of series stays the same, and none of it is shown."""
    metrics, url = opened()

    def count(number: int) -> None:
        odd = f"{MESSAGE}-{number}\n"
        metrics.message_finished(odd, 1.0, {odd: 5.0, "cost_usd": -1.0})
        metrics.claude_called(1.0, odd)
        metrics.context_composed(Context("", [PromptPart(odd, odd, odd)], degraded=[odd], release_run=None, ms=1.0))
        metrics.context_composed(Context("", [], degraded=[odd], release_run=3, ms=1.0))

    count(0)
    series = set(scraped(url)[1])
    for number in range(1, 50):
        count(number)
    text, found = scraped(url)
    assert set(found) == series
    assert "alarm" not in text
    assert (found["hmem_tasks_total", "other"], found["hmem_claude_seconds_count", "other"]) == (50, 50)
    assert (found["hmem_context_degraded_total", "release"], found["hmem_context_degraded_total", "other"]) == (50, 50)
    assert found["hmem_claude_cost_dollars_total",] == 0


def test_without_redis_its_own_figures_still_come(opened: Opened) -> None:
    metrics, url = opened(redis_url=f"redis://:pa55word@127.0.0.1:{free_port()}/0")
    metrics.message_finished("answered", 1.0, {})
    text, found = scraped(url)
    assert found["hmem_redis_up",] == 0
    assert found["hmem_tasks_total", "answered"] == 1
    assert ("hmem_queue_tasks",) not in found
    assert "pa55word" not in text


def test_what_redis_does_not_let_it_ask_is_left_out(light: World, opened: Opened) -> None:
    fill(light.redis)
    name = f"limited-{uuid4().hex[:8]}"
    light.redis.acl_setuser(name, enabled=True, passwords=["+x"], keys=["*"], commands=["+llen"])
    try:
        _, url = opened(redis_url=light.url.replace("redis://", f"redis://{name}:x@"))
        _, found = scraped(url)
        assert found["hmem_redis_up",] == 1, "it answers"
        assert ("hmem_queue_tasks",) not in found
    finally:
        light.redis.acl_deluser(name)


def test_switched_off_the_library_is_not_loaded(light: World) -> None:
    look = (
        "import sys; from types import SimpleNamespace; from shared.config.settings import load_settings\n"
        "from dispatcher.features.metrics import feature\n"
        "assert feature.dispatcher(SimpleNamespace(settings=load_settings())) is None\n"
        "assert not [name for name in sys.modules if name.startswith('prometheus_client')]"
    )
    subprocess.run([sys.executable, "-c", look], cwd=REPOSITORY, env=light.variables(), check=True)


def test_a_port_that_is_taken_costs_the_figures_alone(light: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, capture_logs() as said:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        metrics = MetricsPart(light.settings(metrics_listen=place))
        metrics.message_finished("answered", 1.0, {})
        metrics.dispatcher_stopped()
    assert [(line["listen"], line["log_level"]) for line in said] == [(place, "error")]


@pytest.mark.parametrize(
    "written",
    ["", "127.0.0.1", "::1:9464", "host:0", "host:65536", "host:x", "http://host:80", "a b:80"],
)
def test_addresses_that_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        listen_address(written)
