"""Processes of this host as workers: what is made does not depend on them, and one that dies or hangs costs time and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nightly.workers import processes
from nightly.workers.processes import Processes
from nightly.workers.task import TaskKind
from tests.nightly.workers.tasks import failing, killed_once, own_id, stopped_once, twice
from tests.support.machine import slowness, wait_for
from tests.support.night.workers import rebuilt, talk
from tests.support.world import REPOSITORY, World

TASKS = [(b"", b"%d" % number) for number in range(12)]
ANSWERS = [twice(task) for task in TASKS]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def crew(said: list[str]) -> Iterator[Processes]:
    with closing(Processes(2, 60.0, said.append)) as made:
        yield made


def test_the_answers_of_processes_come_in_the_order_of_the_tasks(crew: Processes, said: list[str]) -> None:
    assert list(crew.map(TaskKind("twice", twice), TASKS)) == ANSWERS
    ids = {answer for (answer,) in crew.map(TaskKind("id", own_id), TASKS)}
    assert len(ids) <= 2
    assert said == []


def test_a_process_that_is_killed_leaves_no_task_undone(crew: Processes, said: list[str], tmp_path: Path) -> None:
    tasks = [(str(tmp_path / "taken").encode() if number == 3 else b"", b"%d" % number) for number in range(12)]
    assert list(crew.map(TaskKind("killed", killed_once), tasks)) == [twice(task) for task in tasks]
    assert said == ["A process of NIGHT_WORKERS died. New ones do what was not done."]


def test_a_process_that_hangs_is_ended_and_its_task_done_elsewhere(said: list[str], tmp_path: Path) -> None:
    tasks = [(str(tmp_path / "taken").encode() if number == 1 else b"", b"%d" % number) for number in range(4)]
    seconds = 4 * slowness()  # the others' tasks and the start of their processes must fit
    with closing(Processes(2, seconds, said.append)) as crew:
        assert list(crew.map(TaskKind("stopped", stopped_once), tasks)) == [twice(task) for task in tasks]
    assert (
        said[0]
        == f"A process of NIGHT_WORKERS took longer than {seconds:g} s for a task. New ones do what was not done."
    )


def test_a_task_that_fails_raises_its_own_error_in_the_night(crew: Processes) -> None:
    with pytest.raises(KeyError, match="task of 2 frames"):
        list(crew.map(TaskKind("failing", failing), TASKS))


def test_without_processes_the_night_does_all_of_it(
    crew: Processes, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: object, **more: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", none)
    assert list(crew.map(TaskKind("twice", twice), TASKS)) == ANSWERS
    assert (
        said[-1]
        == "A process of NIGHT_WORKERS could not be started (OSError). The night itself does what was not done."
    )


def test_processes_end_with_a_night_that_is_killed() -> None:
    code = "from tests.nightly.workers.tasks import work_for_ever; work_for_ever()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as night:
        assert night.stdout is not None
        workers = [Path("/proc", one) for one in night.stdout.readline().split()]
        assert all(one.exists() for one in workers)
        night.kill()
        night.wait()
        wait_for(lambda: not any(one.exists() for one in workers), "the processes to end")


@pytest.mark.usefixtures("large_nights")
def test_a_release_made_by_processes_is_that_of_one_process(world: World) -> None:
    talk(world)
    alone, complaints = rebuilt(world, night_workers="1")
    assert len([name for name in alone if name.startswith("lexical/")]) == 4
    assert (rebuilt(world, night_workers="2"), complaints) == ((alone, []), [])
