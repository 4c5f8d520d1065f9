"""The embedder fails: away, silent, with nonsense, or another model under the same name.

What was said is archived and stays in Redis, the release in use stays, the night ends with 13; when the embedder is back, the next night
completes, with a vector for every chunk.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from shared.errors import EmbeddingError
from tests.chaos.harness.aftermath import check_end, kept, mended, night_with, state_of_use, untouched
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.machine import free_port
from tests.support.world import World

FAILED = frozenset({EmbeddingError.exit_code})
#: What is done to the server; the empty mark stands in every request.
FAULTS: dict[str, Callable[[OllamaApi], object]] = {
    "hanging": lambda api: api.poison.update({"": "hang"}),
    "wrong dimension": lambda api: api.poison.update({"": "narrow"}),
    "NaN": lambda api: api.poison.update({"": "nan"}),
    "fewer vectors than texts": lambda api: api.poison.update({"": "fewer"}),
    "no JSON": lambda api: api.poison.update({"": "html"}),
    "dropped connections": lambda api: api.poison.update({"": "drop"}),
    "model not pulled": lambda api: api.models.clear(),
    "another model under the name": lambda api: setattr(api, "turned", True),
}


@chaos(
    "embedder", "Ollama down, hanging, wrong dimension, NaN, too few vectors, another model or digest under its name"
)
def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    world, shadow = bench.world("embedder"), Shadow()
    names = list(FAULTS)
    if bench.rounds < len(names):
        names = bench.random("embedder").sample(names, bench.rounds)
    with OllamaApi() as api:
        world.environment |= {"EMBEDDER": "ollama", "OLLAMA_URL": api.url, "OLLAMA_TIMEOUT": "1"}
        shadow.say(world, "t0", "the boiler code is 4711")
        mended(world, shadow, outcome, "a night with the embedder", vectors=True)
        _fails(world, shadow, outcome, "down", OLLAMA_URL=f"http://127.0.0.1:{free_port()}")
        mended(world, shadow, outcome, "an embedder that was down", vectors=True)
        for name in names:
            FAULTS[name](api)
            _fails(world, shadow, outcome, name)
            api.poison.clear()
            api.models["all-minilm:latest"], api.turned = DIGEST, False
            mended(world, shadow, outcome, f"an embedder with {name}", vectors=True)
        _another_digest(world, shadow, outcome, api)
    return outcome


def _fails(world: World, shadow: Shadow, outcome: Outcome, name: str, **variables: str) -> None:
    shadow.say(world, f"said-{len(shadow.said)}", f"the heron was seen while the embedder was {name}")
    before, what = state_of_use(world), f"embedder: {name}"
    code, output = night_with(world, variables)
    check_end(outcome, what, code, output, FAILED)
    untouched(world, before, outcome, what)
    known = shadow.archived.copy()
    kept(world, shadow, outcome, what)
    if shadow.archived == known:
        outcome.found("lost", f"{what}: what was said is not in the archive yet")


def _another_digest(world: World, shadow: Shadow, outcome: Outcome, api: OllamaApi) -> None:
    """The same name, another version: every chunk is embedded anew, or the night refuses; never two models in one index."""
    api.models["all-minilm:latest"] = "0" * 64
    api.requests.clear()
    shadow.say(world, "digest", "the heron of the new digest")
    code, output = night(world)
    check_end(outcome, "another digest", code, output, FAILED | {0})
    if code == 0:
        manifest = orjson.loads((world.memory_dir / "current" / "manifest.json").read_bytes())
        asked = {text for texts in api.embedded() for text in texts}
        if "0" * 64 not in manifest["embedding"]["digest"]:
            outcome.found("torn", f"another digest: the manifest says {manifest['embedding']['digest']}")
        if len(asked) < manifest["chunks"]:
            outcome.found("torn", f"another digest: only {len(asked)} texts were embedded anew")
    mended(world, shadow, outcome, "another digest", vectors=True)
