"""Everything embedded again, by the real steps, against a loopback Ollama: interrupted, resumed, beside a day that goes on, and undone."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nightly.backfill.rebuild import rebuild_archive
from nightly.index import recipe
from nightly.night.folder import unfinished_run
from nightly.night.progress import Reporter
from shared.embedding.known_models import known_model
from shared.errors import EmbeddingError
from tests.support.night.rebuilding import (
    NOMIC,
    TwoModels,
    ask,
    by_vector,
    by_words_alone,
    current,
    embedding,
    lower,
    reembed,
    talk,
)
from tests.support.world import World

pytestmark = pytest.mark.usefixtures("model_of_ollama")


@pytest.fixture
def ollama() -> Iterator[TwoModels]:
    api = TwoModels()
    with api:
        yield api


@pytest.fixture
def other(world: World, ollama: TwoModels) -> dict[str, Any]:
    """Settings that name the second family, as an environment; the server is known to every command."""
    world.environment["OLLAMA_URL"] = ollama.url
    return {"EMBEDDER": "ollama", "EMBED_MODEL": NOMIC}


# ---------------------------------------------------------------------------------------------------- switching the model


@pytest.mark.slow
def test_everything_is_built_again_without_embedding_anything(light: World) -> None:
    light.say("t1", "something")
    light.night()
    (summary,) = rebuild_archive(light.settings(), Reporter(quiet=True), reembed=False)
    assert (summary["published"], summary["chunks"], current(light).run) == (True, 1, summary["run"])
    assert light.redis.keys("hcli:memory:*") == []
    (empty,) = light.night()
    assert empty["published"] is False


def test_an_embedder_that_is_away_changes_nothing(world: World, other: dict[str, Any], ollama: TwoModels) -> None:
    talk(world, 2)
    world.night()
    del ollama.models[f"{NOMIC}:latest"]
    with pytest.raises(EmbeddingError, match="ollama pull nomic-embed-text"):
        reembed(world, **lower(other))
    assert unfinished_run(world.settings()) is None
    assert by_vector(ask(world))


# -------------------------------------------------------------------------------------------- interrupted, and meanwhile


@pytest.mark.slow
def test_killed_in_the_middle_and_gone_on_with(world: World, other: dict[str, Any], ollama: TwoModels) -> None:
    talk(world, 300)
    world.night()
    old = current(world).run
    died = world.command(
        "hmem-night", "backfill", "archive", "--reembed", check=False, **other, HMEM_CRASH_AT="embed:batch-cached"
    )
    assert died.returncode == -signal.SIGKILL
    first = len(ollama.documents())
    assert 0 < first < 300
    assert current(world).run == old
    assert by_vector(ask(world)), "the old release serves"
    world.say("late", "a grebe came later")
    done = world.command("hmem-night", "backfill", "archive", "--reembed", "--json", **other)
    assert [summary["published"] for summary in json.loads(done.stdout)] == [True, True]
    embedded = ollama.documents()
    assert len(embedded) == len(set(embedded)) == 301, "nothing that was cached is embedded again"
    assert current(world).turns == 301
    assert world.redis.keys("hcli:memory:*") == []
    assert by_vector(ask(world, **lower(other)))


@pytest.mark.slow
def test_a_night_of_the_old_settings_finishes_it_with_the_old_model(world: World, other: dict[str, Any]) -> None:
    """The owner's backfill died, the timer's night came first: no vectors of two models in a release, and no night that waits for one."""
    talk(world)
    world.night()
    before = embedding(world)
    for point in ("embed:after-commit", "publish:begun"):
        died = world.command(
            "hmem-night", "backfill", "archive", "--reembed", check=False, **other, HMEM_CRASH_AT=point
        )
        assert died.returncode == -signal.SIGKILL
        world.say(f"late-{point.partition(':')[0]}", "a grebe came later")
        world.night()
        assert embedding(world) == before
        assert by_vector(ask(world))
        assert world.redis.keys("hcli:memory:*") == []


# --------------------------------------------------------------------------------------------------------------- dry run


def everything(world: World) -> tuple[dict[str, bytes], dict[bytes, Any]]:
    files = {str(path): path.read_bytes() for path in world.root.rglob("*") if path.is_file()}
    return files, {key: world.redis.dump(key) for key in world.redis.scan_iter()}


@pytest.mark.slow
def test_a_dry_run_counts_and_writes_nothing(world: World, other: dict[str, Any], ollama: TwoModels) -> None:
    talk(world, 40)
    world.night()
    world.say("waiting", "in Redis")
    before = everything(world)
    done = world.command("hmem-night", "backfill", "archive", "--reembed", "--model", NOMIC, "--dry-run", "--json")
    plan = json.loads(done.stdout)
    assert (plan["turns"], plan["keys"]) == (40, 1)
    assert (plan["current"]["family"], plan["wanted"]["family"]) == ("all-MiniLM-L6-v2", "nomic-embed-text-v1.5")
    assert ollama.documents() == []
    assert everything(world) == before
    told = world.command("hmem-night", "backfill", "archive", "--dry-run").stdout
    assert "built of 40 turns and of 1 keys in Redis" in told
    assert everything(world) == before


# ------------------------------------------------------------------------------------------------ undone, and identities


@pytest.mark.slow
def test_back_to_the_old_release(world: World, other: dict[str, Any]) -> None:
    talk(world)
    world.night()
    old = current(world).run
    again = ("hmem-night", "backfill", "archive", "--reembed", "--json")
    world.command(*again, **other)
    assert current(world).run > old
    world.command("hmem", "release", "rollback", "--yes", **other)
    assert current(world).run == old
    assert by_vector(ask(world)), "where the embedder fits"
    assert by_words_alone(world, **lower(other))
    beside = json.loads(world.command(*again, **other).stdout)
    assert [summary["pinned"] for summary in beside] == [old], "published beside the pinned one"
    assert current(world).run == old


def test_a_night_notices_every_difference_that_it_need_not_ask_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a family whose prefixes or dimensions a later version of the program corrects."""
    settings = world.settings()
    made, model = recipe.recipe_of(settings, None), known_model(settings.model_name, settings.embedder)
    assert recipe.recipe_of(settings, made, ask=False) == made
    for other in ({"embedder": "ollama"}, {"night_indexes": "sqlite,chroma"}, {"night_indexes": "none"}):
        assert recipe.recipe_of(settings.model_copy(update=other), made, ask=False) != made, other
    for part in ("family", "dimensions", "document_prefix", "query_prefix"):
        corrected = replace(model, **{part: "another"})  # type: ignore[arg-type]
        monkeypatch.setattr(recipe, "known_model", lambda *_, corrected=corrected: corrected)
        assert recipe.recipe_of(settings, made, ask=False) != made, part
