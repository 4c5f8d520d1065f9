"""A night with the workers of a Dask cluster makes the release of a night without them, whatever becomes of the workers, and says what did."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import psutil
import pytest
from distributed import Client

from nightly.workers import cluster
from tests.servers.ollama_api import OllamaApi
from tests.support.machine import free_port, wait_for
from tests.support.night.workers import EndingApi, killing, loopback_cluster, make_certificates, rebuilt, talk
from tests.support.world import BINARIES, REPOSITORY, World

pytestmark = pytest.mark.usefixtures("large_nights")

#: What becomes of a worker, and how it is said.
FAULTS = {
    "dies": "it is gone.",
    "hangs": "it has not answered a task within 5 s.",
    "lies": "its model answers otherwise than all-MiniLM-L6-v2 at this host.",
}
GOES_ON = "The night goes on without it."


@pytest.fixture
def api(world: World) -> Iterator[OllamaApi]:
    """The embedder of the night."""
    with OllamaApi() as made:
        world.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": made.url, "NIGHT_WORKERS": "1"}
        yield made


@contextmanager
def apis(count: int) -> Iterator[list[EndingApi]]:
    """The embedders of workers."""
    with ExitStack() as opened:
        yield [opened.enter_context(EndingApi()) for _ in range(count)]


def test_a_scheduler_that_is_away_costs_a_sentence(
    world: World, api: OllamaApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    talk(world)
    away = f"tcp://127.0.0.1:{free_port()}"
    files, said = rebuilt(world, night_workers=away)
    assert [one.partition(" (")[0] for one in said] == [f"The scheduler {away} cannot be reached"]
    assert rebuilt(world, night_workers="1") == (files, [])


@pytest.mark.slow
def test_a_release_made_by_a_cluster_is_that_of_one_process_and_no_word_stays_there(
    world: World, api: OllamaApi
) -> None:
    talk(world)
    alone = rebuilt(world)
    with loopback_cluster(world) as dask, apis(2) as embedders:
        for one in embedders:
            dask.start_worker(OLLAMA_URL=one.url)
        asked = len(api.embedded())
        assert rebuilt(world, night_workers=dask.address) == alone == (alone[0], [])
        assert any(one.embedded() for one in embedders)
        assert {text for texts in api.embedded()[asked:] for text in texts if "heron" in text} == set()
        kept = [path for path in dask.scratch.rglob("*") if path.is_file() and b"heron" in path.read_bytes()]
        assert kept == []
    assert list(dask.scratch.glob("hmem-worker-*")) == []


def make_faulty(fault: str, embedder: EndingApi, worker: subprocess.Popen[bytes]) -> None:
    if fault == "lies":
        embedder.turned = True
    else:
        embedder.at_embed = killing(worker, signal.SIGKILL if fault == "dies" else signal.SIGSTOP)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_worker_that_fails_is_named_and_the_release_is_that_of_none(world: World, api: OllamaApi, fault: str) -> None:
    talk(world)
    alone, _ = rebuilt(world)
    with loopback_cluster(world) as dask, apis(1) as (embedder,):
        address = dask.start_worker(OLLAMA_URL=embedder.url)
        make_faulty(fault, embedder, dask.workers[0])
        made, said = rebuilt(world, night_workers=dask.address, night_worker_timeout=5.0 if fault == "hangs" else 60.0)
    assert made == alone
    assert said == [
        f"The worker {address} is left out: {FAULTS[fault]} Others do its tasks.",
        f"The cluster of NIGHT_WORKERS is not used any more: it has no worker that may be used. {GOES_ON}",
    ]


@pytest.mark.slow
def test_three_workers_that_die_hang_and_lie_beside_one_that_works(world: World, api: OllamaApi) -> None:
    """Which of them get a task before the others have done all is left to Dask."""
    talk(world)
    alone, _ = rebuilt(world)
    with loopback_cluster(world) as dask, apis(4) as embedders:
        addresses = [dask.start_worker(OLLAMA_URL=one.url) for one in embedders]
        for fault, embedder, worker in zip(FAULTS, embedders, dask.workers, strict=False):
            make_faulty(fault, embedder, worker)
        made, said = rebuilt(world, night_workers=dask.address, night_worker_timeout=15.0)
    assert made == alone
    reasons = {one.split()[2]: one.partition(": ")[2] for one in sorted(said)}
    expected = {
        address: f"{reason.replace('5 s', '15 s')} Others do its tasks."
        for address, reason in zip(addresses, FAULTS.values(), strict=False)
    }
    assert reasons.items() <= expected.items()


@pytest.mark.slow
def test_a_scheduler_that_dies_in_the_middle_of_the_night_costs_a_sentence(world: World, api: OllamaApi) -> None:
    talk(world)
    alone, _ = rebuilt(world)
    with loopback_cluster(world) as dask, apis(1) as (one,):
        dask.start_worker(OLLAMA_URL=one.url)
        one.at_embed = lambda: os.kill(dask.scheduler.pid, signal.SIGKILL) if dask.scheduler.poll() is None else None
        made, said = rebuilt(world, night_workers=dask.address)
    assert made == alone
    assert [sentence.partition(":")[0] for sentence in said] == ["The cluster of NIGHT_WORKERS is not used any more"]


@pytest.mark.slow
def test_with_tls_a_cluster_takes_nobody_without_a_certificate(world: World, api: OllamaApi) -> None:
    talk(world)
    alone, _ = rebuilt(world)
    given = make_certificates(world.root)
    world.environment |= {f"NIGHT_WORKERS_TLS_{name}": str(path) for name, path in given.items()}
    with loopback_cluster(world, given) as dask, apis(1) as (one,):
        dask.start_worker(OLLAMA_URL=one.url)
        assert rebuilt(world, night_workers=dask.address) == (alone, [])
        assert one.embedded()
        for stranger in (dask.address.replace("tls://", "tcp://"), dask.address):
            with pytest.raises((OSError, TypeError)):  # it is hung up on, or does not even try without certificates
                Client(stranger, timeout=2.0, set_as_default=False)


@pytest.mark.slow
def test_a_worker_with_another_version_of_the_program_is_left_out(
    world: World, api: OllamaApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk(world)
    alone, _ = rebuilt(world)
    monkeypatch.setattr(cluster, "program", lambda: "the next version")
    with loopback_cluster(world) as dask:
        address = dask.start_worker(OLLAMA_URL=api.url)
        made, said = rebuilt(world, night_workers=dask.address)
    assert made == alone
    other = "it runs another version of this program, of Python or of a library"
    assert said == [
        f"The worker {address} is left out: {other}. Others do its tasks.",
        "The cluster of NIGHT_WORKERS is not used any more: it has no worker that may be used. The night goes on without it.",
    ]


@pytest.mark.slow
def test_the_documented_scheduler_shows_nothing_by_http(tmp_path: Path) -> None:
    lines = (REPOSITORY / "docs/workers.md").read_text(encoding="utf-8").splitlines()
    setting, start = (
        next(one for one in lines if one.startswith(begin)) for begin in ("export DASK", "dask scheduler")
    )
    port = free_port()
    command = start.replace("10.0.0.5", "127.0.0.1").replace("8786", str(port))
    process = subprocess.Popen(
        ["/bin/bash", "-c", f"{setting}\nexec {BINARIES}/{command}"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: len(listening(process.pid)) == 2, "the scheduler and its port for HTTP")
        assert {host for host, _ in listening(process.pid)} == {"127.0.0.1"}
        (web,) = {number for _, number in listening(process.pid)} - {port}
        for page in ("info/main/workers.html", "info/main/logs.html", "json/identity.json", "metrics"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{web}/{page}")
    finally:
        process.terminate()
        process.wait(60)


def listening(pid: int) -> set[tuple[str, int]]:
    """Where a process accepts connections."""
    made = psutil.Process(pid).net_connections("tcp")
    return {(one.laddr.ip, one.laddr.port) for one in made if one.status == psutil.CONN_LISTEN}
