"""Workers of a night: what is made does not depend on them, and one that dies costs time and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Client

from nightly.night import workers
from nightly.night.workers import Workers
from nightly.steps import embed
from shared.config.settings import load_settings
from shared.errors import EmbeddingError, SettingsError
from tests.nightly.night.workers.tasks import killed_once, own_id, twice
from tests.servers.ollama_api import OllamaApi
from tests.support.machine import free_port, wait_for
from tests.support.night.index_world import MadeUp
from tests.support.night.workers import make_nights_large, rebuilt, talk
from tests.support.world import REPOSITORY, World

TASKS = [(b"", b"%d" % number) for number in range(12)]
ANSWERS = [twice(task) for task in TASKS]
MANY = 100_000


@pytest.fixture
def two() -> Iterator[Workers]:
    with closing(Workers("2", lambda sentence: None)) as made:
        yield made


def test_the_answers_of_processes_come_in_the_order_of_the_tasks(two: Workers) -> None:
    assert list(two.map(twice, TASKS, MANY)) == ANSWERS
    ids = {int(answer) for (answer,) in two.map(own_id, TASKS, MANY)}
    assert os.getpid() not in ids
    assert {answer for (answer,) in two.map(own_id, TASKS, 10)} == {str(os.getpid()).encode()}, "too few"
    assert two.complaints == []


def test_a_process_that_is_killed_leaves_no_task_undone(two: Workers, tmp_path: Path) -> None:
    tasks = [(str(tmp_path / "taken").encode() if number == 3 else b"", b"%d" % number) for number in range(12)]
    assert list(two.map(killed_once, tasks, MANY)) == [twice(task) for task in tasks]
    lost = "Workers (NIGHT_WORKERS=2): They were lost (BrokenProcessPool)."
    assert two.complaints == [f"{lost} They are started again."]
    tasks = [(str(tmp_path / "again").encode(), b"1"), *TASKS]
    assert list(two.map(killed_once, tasks, MANY, twice)) == [twice(task) for task in tasks]
    assert two.complaints[1:] == [f"{lost} The night itself does the rest."]


def test_processes_end_with_a_night_that_is_killed() -> None:
    code = "from tests.nightly.night.workers.tasks import work_for_ever; work_for_ever()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as night:
        assert night.stdout is not None
        processes = [Path("/proc", one) for one in night.stdout.readline().split()]
        assert processes
        night.kill()
        night.wait()
        wait_for(lambda: not any(one.exists() for one in processes), "the processes to end")


def test_a_release_made_by_processes_is_that_of_one_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    make_nights_large(monkeypatch)
    talk(world)
    alone, complaints = rebuilt(world, night_workers="1")
    assert (rebuilt(world, night_workers="2"), complaints) == ((alone, []), [])


class EndingApi(OllamaApi):
    """Embeds for a worker, which it can kill."""

    victim: subprocess.Popen[bytes] | None = None

    def embed(self, texts: list[str], fault: str) -> dict[str, object]:
        if self.victim:
            self.victim.kill()
        return super().embed(texts, fault)


@contextmanager
def dask(world: World, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler, or a worker of one, of Dask's own command."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{arguments[0]}", *arguments[1:], "--no-dashboard"]
    with subprocess.Popen(
        command, env=world.variables(**environment), cwd=world.root, stderr=subprocess.DEVNULL
    ) as one:
        try:
            yield one
        finally:
            one.send_signal(signal.SIGKILL)


def test_a_release_made_by_a_cluster_is_that_of_one_process_even_if_its_worker_is_killed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_nights_large(monkeypatch)
    monkeypatch.setenv("EMBED_MODEL", "all-minilm")  # of the process that tries a release, which knows no Ollama
    talk(world)
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with OllamaApi() as own, EndingApi() as theirs:
        world.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": own.url}
        alone, _ = rebuilt(world, night_workers="1")
        with (
            dask(world, "scheduler", "--host=tcp://127.0.0.1", f"--port={port}", "--no-show"),
            dask(world, "worker", address, "--no-nanny", "--nthreads=1", OLLAMA_URL=theirs.url) as worker,
        ):
            with Client(address, timeout=300, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=300)
            asked = len(own.embedded())
            assert rebuilt(world, night_workers=address) == (alone, [])
            assert theirs.embedded()
            assert not [text for texts in own.embedded()[asked:] for text in texts if "heron" in text]
            theirs.victim = worker
            made, said = rebuilt(world, night_workers=address)
    assert made == alone
    assert [one.partition("): ")[2] for one in said][-1:] == [
        "They were lost (BrokenExecutor). The night itself does the rest."
    ]


def test_a_scheduler_that_is_away_costs_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 0.5)
    with closing(Workers(f"tcp://127.0.0.1:{free_port()}", lambda sentence: None)) as away:
        assert list(away.map(twice, TASKS, MANY)) == ANSWERS
        assert away.complaints[-1].endswith("The night itself does the rest.")


@pytest.mark.parametrize(
    "value",
    ["0", "-1", "many", "tcp://host", "http://host:80", "tcp://host:99999", "tcp://host:1/x", "tcp://8.8.8.8:8786"],
)
def test_other_values_of_the_setting_are_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="NIGHT_WORKERS"):
        load_settings(night_workers=value)
    for good in ("auto", "4", "tcp://10.0.0.5:8786", "tcp://[fd00::1]:8786", "tls://8.8.8.8:8786"):
        assert load_settings(night_workers=good).night_workers == good


def test_a_worker_with_another_model_does_not_embed(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = MadeUp()
    monkeypatch.setattr(embed, "_worker_embedder", lambda: theirs)
    texts = ["a heron", "an otter"]
    made = embed.embed_on_worker((theirs.identity, texts))
    assert (made.refused, made.vectors.shape) == ({}, (2, theirs.identity.dimensions))
    with pytest.raises(EmbeddingError):
        embed.embed_on_worker((replace(theirs.identity, digest="d2"), texts))
