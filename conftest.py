"""Fixtures that tests of several folders use."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog  # noqa: F401 - which is configured here, before a test captures lines
from redis import Redis

from shared.config import credentials, sources
from shared.config.settings import load_settings, setting_names
from shared.text.logs import configure_logs
from tests.servers import redis8
from tests.support.day.hcli_bot import Bot
from tests.support.machine import redis_server
from tests.support.processes import forked
from tests.support.redis import recorded
from tests.support.redis.users import Guarded, guarded_redis, vector_additions
from tests.support.world import REPOSITORY, Dispatcher, Live, Snapshot, World

if TYPE_CHECKING:
    from dispatcher.memory.embedder import DayEmbedder
    from tests.support.night.builds import Nights
    from tests.support.night.two_hosts import DayHost
    from tests.support.stores import PostgreSQL, Stores

pytest_plugins = ("tests.support.selection",)

hypothesis.settings.register_profile("hmem", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("hmem")
#: Children of this process take our stand-in modules from here; commands in `World` have an environment of their own.
os.environ["PYTHONPATH"] = str(REPOSITORY)
#: No setting comes from the machine that runs the tests: neither from a shell nor from an installation.
for name in (*setting_names(), "HMEM_CONFIG", credentials.VARIABLE):
    os.environ.pop(name, None)
_nothing = tempfile.TemporaryDirectory(prefix="hmem-test-")
os.environ["XDG_CONFIG_HOME"] = _nothing.name
forked.wait_for_no_disk()
configure_logs("INFO", as_json=False)
sources.DEFAULT_CONFIG = credentials.SECRETS_DIR = Path(_nothing.name, "none")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Before a worker of xdist starts: all have one fork server, that of the process that starts them."""
    node.workerinput["fork_server"] = forked.shared_server()


def pytest_configure(config: pytest.Config) -> None:
    if (given := getattr(config, "workerinput", None)) is not None:
        forked.use_server(given["fork_server"])


@pytest.fixture(scope="session", autouse=True)
def _commands_of_each_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every command that our programs send to Redis in these tests is one that the user may send who sends it (deploy/redis-users.acl)."""
    forked.recording = str(tmp_path_factory.getbasetemp() / "redis-commands.jsonl")
    yield
    if (program := redis8.find_program()) is None:
        return  # an older one does not know the commands of vectors
    with guarded_redis(tmp_path_factory.mktemp("users"), program=program, additions=vector_additions()) as guarded:
        wrong = recorded.refused(Path(forked.recording), guarded)
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A redis-server of this test run."""
    with redis_server(tmp_path_factory.mktemp("redis"), "--save", "") as (_, _, url):
        yield url


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A Redis whose users have the rights of deploy/redis-users.acl."""
    with guarded_redis(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """An empty Redis. Values are bytes."""
    client: Redis = Redis.from_url(redis_url, socket_timeout=60)  # the machine may be busy
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def bot(redis: Redis) -> Bot:
    """A client that does what h-cli's bot does."""
    return Bot(redis)


@pytest.fixture
def dispatcher(light: World) -> Iterator[Dispatcher]:
    running = light.start_dispatcher()
    yield running
    assert running.stop() == 0


@pytest.fixture(autouse=True)
def _forked_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program starts of itself in the test's own process (a night's trial of its release) is forked, not a Python started for it."""
    monkeypatch.setattr(subprocess, "Popen", forked.Popen)


@pytest.fixture
def world(tmp_path: Path, redis: Redis, redis_url: str) -> Iterator[World]:
    """An installation with the default embedder and index."""
    made = World(tmp_path, redis, redis_url)
    yield made
    for dispatcher in made.dispatchers:  # those that a failed test left running
        dispatcher.stop(signal.SIGKILL)


@pytest.fixture
def model_of_ollama(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that an Ollama has, too, also for the process that tries a release, which knows no Ollama."""
    monkeypatch.setenv("EMBED_MODEL", "all-minilm")
    world.environment["EMBED_MODEL"] = "all-minilm"


@pytest.fixture
def light(world: World) -> World:
    """An installation without vectors: nights take a fraction of a second."""
    world.environment = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}
    return world


@pytest.fixture
def begun(light: World, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Live], World]:
    """`light` after what a function lets it live through, which is done once in this process."""

    def begin(live: Live) -> World:
        if live not in _lived:
            _lived[live] = Snapshot.made(tmp_path_factory.mktemp("lived"), redis_url, live)
        return _lived[live].lay_out(light)

    return begin


_lived: dict[Live, Snapshot] = {}


@pytest.fixture
def day_host(light: World, tmp_path: Path) -> Iterator[DayHost]:
    """Another host behind an sshd of this test."""
    from tests.support.night.two_hosts import serving

    with serving(light, tmp_path / "ssh") as host:
        yield host


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    """Nights of one host up to their build, with Chroma."""
    from tests.support.night.builds import Nights

    return Nights(tmp_path)


@pytest.fixture(scope="module")
def embedder() -> Iterator[DayEmbedder]:
    """The shipped model, as the day embeds with it."""
    from dispatcher.memory.embedder import DayEmbedder

    with closing(DayEmbedder(load_settings(embedder="local"))) as made:
        made.open()
        yield made


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """The PostgreSQL server of this test run, which all workers share. Nobody stops it: that needs one of a test's own."""
    from tests.support.stores import shared_postgresql

    own = tmp_path_factory.getbasetemp()
    with shared_postgresql(own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, server: PostgreSQL) -> Iterator[Stores]:
    """An empty day store on either engine."""
    from tests.support.stores import engine_stores

    yield from engine_stores(request.param, tmp_path, server)
