"""The shipped compose file and Dockerfiles on a real Docker engine: from the build to a recalled memory, each restart, and the end.

The tests share the services, and are in the order of their life.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import roots
from tests.engines.confinement import CONFINED
from tests.engines.docker import images
from tests.engines.docker.engine import ADDRESS, PROGRAMS, Engine
from tests.engines.docker.services import STAYING, Services
from tests.engines.standins import FACT, QUESTION, REMEMBERED, StandIns
from tests.support.machine import wait_for

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3600)]

#: uid and gid of each service.
USERS = {
    "redis": (999, 999),
    "dispatcher": (10001, 10001),
    "telegram": (10003, 10003),
    "night": (10002, 10001),
    "secrets": (10004, 10004),
    "owner": (10001, 10001),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """It has the base images."""
    if fault := roots.fault_of_host(*PROGRAMS):
        pytest.skip(fault)
    with roots.alone():
        root = images.kept_root()
        data = roots.kept("docker-data", [roots.checked(["dockerd", "--version"]), root.name], Path.mkdir)
        with Engine(data, tmp_path_factory.mktemp("docker"), root / images.PLUGINS) as running:
            images.make(running, root)
            yield running


@pytest.fixture(scope="module")
def people(engine: Engine) -> Iterator[StandIns]:
    with StandIns(engine.network, ADDRESS) as made:
        yield made


@pytest.fixture(scope="module")
def services(engine: Engine, people: StandIns, tmp_path_factory: pytest.TempPathFactory) -> Services:
    """Built and started."""
    made = Services(engine, tmp_path_factory.mktemp("services"), people.environment)
    try:
        made.start()
    except AssertionError:
        print(made.logs())
        raise
    return made


@pytest.fixture(autouse=True)
def _logs_of_a_failure(request: pytest.FixtureRequest, services: Services) -> Iterator[None]:
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        print(services.logs())


def test_every_service_becomes_healthy(services: Services) -> None:
    services.wait_until_healthy()
    assert services.inspect("secrets")["State"]["ExitCode"] == 0


@pytest.mark.parametrize("service", USERS)
def test_a_container_has_no_right_of_root_and_cannot_change_its_image(services: Services, service: str) -> None:
    status, mounts = services.process(service)
    user, group = USERS[service]
    assert (status["Uid"], status["Gid"]) == ("\t".join([str(user)] * 4), "\t".join([str(group)] * 4))
    assert {name: status[name] for name in CONFINED} == CONFINED
    assert "ro" in mounts["/"]


def test_a_message_is_answered(people: StandIns) -> None:
    people.ask("Good morning.")
    people.ask(FACT)


def test_a_new_conversation_begins(people: StandIns) -> None:
    people.ask("/new", "new conversation")
    people.ask("This is the second conversation.")
    people.ask("This goes on.")


def test_after_a_night_it_is_remembered(services: Services, people: StandIns) -> None:
    assert services.status()["turns_waiting"] > 0
    services.compose("exec", "-T", "night", "hmem-night", "run")
    after = services.status()
    assert (after["release"], after["turns_waiting"]) == (1, 0)
    people.ask("/new", "new conversation")
    assert REMEMBERED in people.ask(QUESTION, "From memory: ")


@pytest.mark.parametrize("service", STAYING)
def test_a_restart_loses_no_turn(services: Services, people: StandIns, service: str) -> None:
    people.ask(f"Before {service} is restarted.")
    waiting = services.status()["turns_waiting"]
    services.compose("restart", service)
    services.wait_until_healthy()
    assert services.status()["turns_waiting"] == waiting > 0
    people.ask(f"After {service} was restarted.")


def test_a_killed_redis_comes_back_and_loses_no_turn(services: Services, people: StandIns) -> None:
    people.ask("Before Redis is killed.")
    waiting, restarts = services.status()["turns_waiting"], services.inspect("redis")["RestartCount"]
    services.compose("exec", "-T", "redis", "sh", "-c", "kill -9 -1", check=False)
    wait_for(lambda: services.inspect("redis")["RestartCount"] > restarts, "Docker to start Redis again")
    services.wait_until_healthy()
    assert services.status()["turns_waiting"] == waiting > 0
    people.ask("After Redis was killed.")


def test_the_doctor_finds_nothing(services: Services) -> None:
    said = services.owner("hmem", "doctor", "--all")  # ends with 0
    for sentence in ("The dispatcher runs", "The bot runs", "Release 1 is intact", "cannot read our files and secrets"):
        assert sentence in said


def test_down_leaves_nothing(services: Services, engine: Engine) -> None:
    services.compose("--profile=owner", "down", "--volumes")
    assert not engine.docker("ps", "--all", "--quiet")
    assert not engine.docker("volume", "ls", "--quiet")
    assert not engine.docker("network", "ls", "--quiet", "--filter=type=custom")


def test_another_image_of_redis_may_have_an_etc_redis(services: Services) -> None:
    services.compose("up", "--detach", "redis", variables={"REDIS_IMAGE": images.OTHER_REDIS})
    assert services.inspect("redis")["Config"]["Image"] == images.OTHER_REDIS
    assert services.inspect("secrets")["State"]["ExitCode"] == 0
    services.wait_until_healthy("redis")
