"""Backfill: rebuild the release from the whole archive, with another embedding model or with the current version of the program.

It is a night that builds although nothing is new: the same steps, lock, lease and checks, and new turns in Redis are archived and released
with the rest. So `hmem-night run` can also finish a killed backfill, and its vectors are cached by model: none is computed twice. The
current release stays in use until the switch. The settings alone choose the model, as in any night: a release has vectors of one model.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from nightly import pipeline
from nightly.archive.catalog import recomputed
from nightly.archive.incoming.reading import turn_keys
from nightly.index.chunk_file import ChunkFolder
from nightly.night.folder import CACHE, Night
from nightly.night.lease import Lease, connect
from nightly.night.ledger import summed
from nightly.night.progress import Reporter
from nightly.night.target import open_target
from nightly.steps import chunk
from shared.config.credentials import for_child
from shared.config.settings import Settings
from shared.embedding.known_models import known_model
from shared.embedding.models import Embedder, EmbeddingIdentity
from shared.embedding.open import open_embedder
from shared.errors import InvalidInput
from shared.release.manifest import Manifest
from shared.system.files import make_dir
from shared.system.processes import module_command
from shared.text.format import rough_duration
from shared.turns.chunking import embedded_text

#: Texts that a dry run embeds to measure the time per text: one request.
SAMPLE_TEXTS = 32


def rebuild_archive(
    settings: Settings, reporter: Reporter, *, reembed: bool, accept: bool = False
) -> list[dict[str, Any]]:
    """Build and publish a release of the whole archive; returns the summaries of the nights that it took, as from `run_nights`.

    With `reembed` only if the vectors of the current release are not those of the configured embedder.
    """
    wanted = identity_of(settings) if reembed else None
    return pipeline.run_nights(settings, reporter, accept=accept, rebuild=_differs_from(wanted))


def _differs_from(wanted: EmbeddingIdentity | None) -> Callable[[Manifest | None], bool]:
    def differs(current: Manifest | None) -> bool:
        return wanted is None or current is None or current.embedding != wanted

    return differs


def identity_of(settings: Settings) -> EmbeddingIdentity:
    """The identity of the configured embedder, including the version of its weights; opens the embedder."""
    embedder = open_embedder(settings) if settings.indexes else None
    if embedder is None:
        raise InvalidInput(
            "EMBEDDER or NIGHT_INDEXES is none, so there is nothing to embed with. Set both, or name a model with --model."
        )
    with closing(embedder):
        return embedder.identity


def start_again_with(model: str, arguments: list[str]) -> None:
    """Restart this command with the model in its settings, so that every process that it starts reads the same settings.

    The release is tested in a separate process with the settings of the day host. Does not return.
    """
    known_model(model, "ollama")  # reports a typo before anything else
    settings = ["EMBEDDER=ollama", f"EMBED_MODEL={model}"]
    sys.stderr.flush()
    with for_child() as (environment, descriptors):
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)
        command = ["env", *settings, *module_command("nightly", *arguments)]
        os.execvpe("env", command, environment)  # noqa: S606 - no shell is meant


def plan(settings: Settings, reporter: Reporter) -> dict[str, Any]:
    """What a backfill would do, and about how long it would embed, measured with a few texts. Nothing is written."""
    with closing(connect(settings)) as client, tempfile.TemporaryDirectory(prefix="hmem-plan-") as folder:
        night = Night(settings, Path(folder), client, Lease(client, settings.hmem_night_dir), reporter)
        current = open_target(settings, client).current()
        with closing(night.workers), recomputed(settings, reporter) as catalog:
            accounts, _ = chunk.cut(night, catalog, list(catalog.digests()), make_dir(night.output("chunk")))
        found: dict[str, Any] = {
            "current": _shown(current.embedding) if current else None,
            "turns": summed(accounts, "turns"),
            "chunks": summed(accounts, "chunks"),
        }
        keys = len(turn_keys(client))
        embedder = open_embedder(settings) if settings.indexes else None
        texts = ([embedded_text(chunk) for chunk, _ in some] for _, some in ChunkFolder(night.output("chunk")))
        if embedder is None:
            nothing = {"wanted": None, "cached": 0, "to_embed": 0, "texts_per_second": None, "seconds": 0.0}
            return found | {"texts": sum(map(len, texts)), "keys": keys} | nothing
        with closing(embedder):
            return found | {"keys": keys, "wanted": _shown(embedder.identity)} | _to_embed(settings, embedder, texts)


def _shown(identity: EmbeddingIdentity | None) -> dict[str, Any] | None:
    if identity is None:
        return None
    return {name: value for name, value in identity.to_json().items() if name != "probes"}


def _to_embed(settings: Settings, embedder: Embedder, texts: Iterable[list[str]]) -> dict[str, Any]:
    """Counts, and the time that embedding takes, measured with the first texts that are to be embedded."""
    from nightly.index.vector_cache import known_texts
    from shared.embedding.probes import prove

    prove(embedder)  # also loads the model before anything is timed
    sample, wanted, missing = list[str](), 0, 0
    for some in texts:
        known = known_texts(settings.hmem_night_dir / CACHE, embedder.identity, some)
        new = [text for text in dict.fromkeys(some) if text not in known]
        wanted, missing = wanted + len(set(some)), missing + len(new)
        sample += new[: SAMPLE_TEXTS - len(sample)]
    counts = {"texts": wanted, "cached": wanted - missing, "to_embed": missing}
    if not missing:
        return counts | {"texts_per_second": None, "seconds": 0.0}
    started = time.perf_counter()
    embedder.embed_documents(sample)
    rate = len(sample) / max(time.perf_counter() - started, 1e-6)
    return counts | {"texts_per_second": round(rate, 1), "seconds": round(missing / rate, 1)}


def plan_sentence(found: dict[str, Any], step_timeout: float) -> str:
    """A plan as text."""
    wanted, current = found["wanted"], found["current"]
    in_use = f"vectors of {current['family']} ({current['provider']})" if current else "no vectors"
    text = f"{found['turns']} turns make {found['chunks']} chunks; the current release has {in_use}. "
    if wanted is None:
        text += "EMBEDDER or NIGHT_INDEXES is none: nothing would be embedded."
    else:
        text += f"With {wanted['family']} ({wanted['provider']}): {found['to_embed']} texts to embed, {found['cached']} are cached"
        text += (
            f", about {rough_duration(found['seconds'])} at {found['texts_per_second']} texts/s"
            if found["to_embed"]
            else ""
        )
        text += "."
    if found["seconds"] > step_timeout:
        text += (
            " That is longer than STEP_TIMEOUT: raise it, or run the backfill again, which continues where it stopped."
        )
    if found["keys"]:
        text += f" {found['keys']} keys in Redis would be added."
    return f"{text} Nothing was written."


def model_warning(model: str) -> str:
    """What the owner must do in addition."""
    return (
        f"Set EMBEDDER=ollama and EMBED_MODEL={model} in the settings of both the night host and the day host, and restart the dispatcher. "
        "Until then it searches by keyword only, and the next night returns to the configured model."
    )
