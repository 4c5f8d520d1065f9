"""Which second copy there is, in doctor, status and metrics; and the replicas of Redis."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.health.checks.host import check_second_copy
from dispatcher.health.findings import Finding, Setup
from shared.errors import JournalUnavailable
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import answers, free_port, wait_for


def examined(host: LossyHost) -> Finding:
    return check_second_copy(Setup(host.world.settings(), host.world.redis))


def test_the_doctor_says_which_second_copy_there_is(host: LossyHost) -> None:
    host.world.environment["JOURNAL"] = ""
    assert (examined(host).state, "no second copy" in examined(host).sentence) == ("warning", True)
    host.world.environment["JOURNAL"] = str(host.disk)
    assert "no dispatcher reports it" in examined(host).sentence
    host.world.start_dispatcher()
    host.followed()
    found = examined(host)
    assert f"journal to {host.disk}: up to date" in found.sentence
    assert (found.state, "on the same disk" in found.sentence) == ("warning", True), "tests have one disk"


def test_a_journal_that_cannot_be_kept_is_a_problem_and_stops_no_answer(host: LossyHost) -> None:
    host.world.environment["JOURNAL"] = str(host.world.root / "not-mounted")
    host.world.start_dispatcher()
    host.world.enqueue("t0", "hello")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t0"), "the answer")
    (host.world.root / "not-mounted").mkdir()
    wait_for(lambda: host.reported().get("entries") == 0, "the journal to begin")
    host.followed()
    (host.world.root / "not-mounted" / "journal.json").unlink()
    wait_for(lambda: host.reported()["error"], "the report")
    assert examined(host).code == JournalUnavailable.exit_code
    host.world.enqueue("t1", "hello again")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t1"), "the answer")


def test_status_says_how_far_behind_it_is(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.followed()
    assert f"journal to {host.disk}: up to date" in host.world.status().stdout
    found = json.loads(host.world.status("--json").stdout)["second_copy"]
    assert (found["kind"], found["entries"], found["error"]) == ("journal", 0, None)
    assert "second copy      none" in host.world.status(JOURNAL="").stdout


def test_metrics_have_the_second_copy(host: LossyHost) -> None:
    port = free_port()
    host.world.environment |= {"METRICS_LISTEN": str(port)}
    host.world.start_dispatcher()
    host.followed()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
        text = page.read().decode()
    assert "hmem_second_copy_up 1.0" in text
    assert "hmem_second_copy_behind_entries 0.0" in text
    assert "hmem_redis_wait_failures_total 0.0" in text


@pytest.fixture
def with_metrics(host: LossyHost) -> int:
    port = free_port()
    host.world.environment |= {"JOURNAL": "", "REDIS_WAIT": "1", "REDIS_WAIT_MS": "3000", "METRICS_LISTEN": str(port)}
    return port


def missed(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("hmem_redis_wait_failures_total ")))


def test_a_replica_confirms_answers(host: LossyHost, with_metrics: int, tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "replica"
    folder.mkdir()
    command = ["redis-server", "--port", str(port), "--dir", str(folder), "--save", "", "--replicaof", "127.0.0.1"]
    with subprocess.Popen([*command, str(host.server.port)], stdout=subprocess.DEVNULL) as replica:
        client: Redis = Redis(port=port)
        wait_for(lambda: answers(client), "the replica")
        wait_for(lambda: host.redis.info("replication")["connected_slaves"] == 1, "it to follow")
        wait_for(lambda: client.info("replication")["master_link_status"] == "up", "it to have everything")
        host.world.start_dispatcher()
        host.world.enqueue("t0", "hello")
        wait_for(lambda: host.redis.exists("hcli:mem:done:t0"), "the answer")
        wait_for(lambda: host.redis.hexists("hcli:mem:journal", "waited"), "the question")
        wait_for(lambda: client.exists("hcli:memory:t0:asst"), "the replica to have it")
        assert missed(with_metrics) == 0
        assert "replicas of Redis: 1 of 1" in host.world.status(METRICS_LISTEN="").stdout
        client.close()
        replica.terminate()


def test_a_missing_replica_is_counted_and_delays_no_answer(host: LossyHost, with_metrics: int) -> None:
    host.world.start_dispatcher()
    for number in range(3):
        host.world.enqueue(f"t{number}", "hello")
    began = time.monotonic()
    wait_for(lambda: host.redis.exists("hcli:mem:done:t2"), "the answers")
    assert time.monotonic() - began < 3 * 3.0, (
        "three answers one after the other, and none waited for its three seconds"
    )
    wait_for(lambda: missed(with_metrics) == 3, "each to be counted")
    found = examined(host)
    assert (found.state, "replicas of Redis: 0 of 1" in found.sentence) == ("warning", True)
