"""Real nights with each of the indexes that need a library or a server: what is remembered, switched, gone back to, forgotten and left over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shared.config.kinds import place_of, served
from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable
from shared.vectors.on_server import builder_on, read_served
from tests.support.night.index_world import settings_for
from tests.support.world import World


class Indexed:
    """A world whose nights build one index, and whose day searches it."""

    def __init__(self, world: World, name: str, settings: Settings) -> None:
        self.world, self.name = world, name
        wanted = ("qdrant_url", "redis_vectors_url", "index_name")
        servers = {key: value for key, _, value in settings.every() if key in wanted}
        more = {"night_indexes": name, "memory_backend": name, **servers}
        self.variables = {key.upper(): str(value) for key, value in more.items() if value is not None}
        world.environment |= self.variables

    def night(self) -> dict[str, Any]:
        (done,) = json.loads(self.world.command("hmem-night", "run", "--json").stdout)
        return dict(done)

    def search(self, question: str) -> dict[str, Any]:
        return dict(json.loads(self.world.command("hmem", "search", "9912", question, "--json").stdout))

    def on_server(self) -> list[str]:
        """Every index of ours."""
        return builder_on(self.world.settings(**self._own()), self.name).left_over([])

    def _own(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.variables.items()}

    def served(self, run: int) -> str:
        return read_served(self.world.memory_dir / "releases" / str(run) / place_of(self.name)).name


@pytest.fixture(params=("lancedb", *served()))
def indexed(request: pytest.FixtureRequest, world: World) -> Iterator[Indexed]:
    with settings_for([request.param], world.root) as settings:
        yield Indexed(world, request.param, settings)


@pytest.mark.slow
def test_days_and_nights(indexed: Indexed) -> None:
    world, name = indexed.world, indexed.name
    world.say("t1", "the boiler code is 4711")
    indexed.night()
    world.say("t2", "Noor keeps bees on the roof")
    indexed.night()
    found = indexed.search("who looks after insects?")
    assert found["hits"][0]["turn_ids"] == ["t2:user"], "by its meaning: no word is the same"
    assert found["hits"][0]["scores"]["cosine"] > 0.2
    assert found["degraded"] == []
    if name in served():
        assert indexed.on_server() == [indexed.served(1), indexed.served(2)], "one for each release"
    world.command("hmem", "release", "rollback", "--yes")
    assert [hit["turn_ids"] for hit in indexed.search("who looks after insects?")["hits"]] == [["t1:user"]]
    world.command("hmem", "release", "rollback", "--unpin")
    receipt = world.command("hmem", "forget", "--turn", "t1:user", "--yes").stdout
    assert ": complete." in receipt
    assert (f"backups of the vector server {name}" in receipt) == (name in served()), "what only its owner can do"
    assert [hit["turn_ids"] for hit in indexed.search("what is the code?")["hits"]] == [["t2:user"]]
    if name in served():
        (newest,) = (world.memory_dir / "releases").iterdir()
        assert indexed.on_server() == [indexed.served(int(newest.name))], "nothing is left of the releases that held it"
    world.say("t9", "back to an index of files")
    world.command("hmem-night", "run", NIGHT_INDEXES="sqlite", MEMORY_BACKEND="auto", RELEASES_KEPT="2")
    world.command("hmem", "release", "prune", "--keep", "1")
    if name in served():
        assert len(indexed.on_server()) == 1, "its release is the parent of the current one"
        world.say("t10", "and another night")
        without = {"NIGHT_INDEXES": "sqlite", "MEMORY_BACKEND": "auto", "RELEASES_KEPT": "2"}
        for task in ("t11", "t12"):
            world.command("hmem-night", "run", check=True, **without)
            world.say(task, "and another night")
        world.command("hmem-night", "run", check=True, **without)
        assert indexed.on_server() == [], "the night remembers the server that its settings do not name any more"


@pytest.mark.slow
@pytest.mark.parametrize("name", served())
def test_without_the_server_the_night_waits_and_the_day_has_words(world: World, name: str) -> None:
    with settings_for([name], world.root) as settings:
        indexed = Indexed(world, name, settings)
        world.say("t1", "the boiler code is 4711")
        indexed.night()
    world.say("t2", "the wifi is called heron")
    done = world.command("hmem-night", "run", check=False)
    assert done.returncode == IndexServerUnavailable.exit_code
    assert "Traceback" not in done.stderr
    assert world.redis.exists("hcli:memory:t2:user"), "nothing is flushed"
    assert (world.memory_dir / "current").resolve().name == "1"
    found = indexed.search("what is the code of the boiler?")
    assert [hit["turn_ids"] for hit in found["hits"]] == [["t1:user"]]
    assert f"the {name} server is not available" in found["degraded"][0]
    world.command("hmem-night", "run", NIGHT_INDEXES="sqlite")
    assert (world.memory_dir / "current").resolve().name != "1", "another index is one setting away"


@pytest.mark.slow
def test_what_was_forgotten_goes_under_every_name_that_was_used(world: World) -> None:
    with settings_for(["redis"], world.root) as settings:
        indexed = Indexed(world, "redis", settings)
        world.say("t1", "the boiler code is 4711", chat_id="77")
        world.say("t2", "Noor keeps bees")
        indexed.night()
        world.say("t3", "and she sells honey")
        other = settings.model_copy(update={"index_name": f"{settings.index_name}-2"})
        world.command("hmem-night", "run", INDEX_NAME=other.index_name)
        assert len(indexed.on_server()) == len(builder_on(other, "redis").left_over([])) == 1
        assert ": complete." in world.command("hmem", "forget", "--chat=77", "--yes").stdout
        assert builder_on(other, "redis").left_over([]) == []
        assert len(indexed.on_server()) == 1
        world.say("t4", "but not at night")
        gone = world.command(
            "hmem-night",
            "run",
            NIGHT_INDEXES="sqlite",
            MEMORY_BACKEND="auto",
            REDIS_VECTORS_URL="redis://127.0.0.1:1/0",
        )
        assert "REDIS_VECTORS_URL" in gone.stdout, "it is remembered, though no setting names it"
