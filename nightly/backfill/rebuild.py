"""Backfill: rebuild the release from the whole archive, with another embedding model or with the current version of the program.

It is a night that builds although nothing is new: the same steps, lock, lease and checks, and new turns in Redis are archived and released
with the rest. So `hmem-night run` can also finish a killed backfill, and its vectors are cached by model: none is computed twice. The
current release stays in use until the switch. The settings alone choose the model, as in any night: a release has vectors of one model.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from nightly import pipeline
from nightly.archive.catalog import recomputed
from nightly.archive.incoming import turn_keys
from nightly.index.recipe import comparable, night_embedder
from nightly.night.lease import connect
from nightly.night.progress import Reporter
from nightly.night.target import open_target
from shared.config.settings import Settings
from shared.config.sources import set_for_children
from shared.embedding.known_models import known_model
from shared.errors import InvalidInput
from shared.release.manifest import Manifest


def rebuild_archive(
    settings: Settings, reporter: Reporter, *, reembed: bool, accept: bool = False
) -> list[dict[str, Any]]:
    """Build and publish a release of the whole archive; returns the summaries of the nights that it took, as from `run_nights`.

    With `reembed` only if the vectors of the current release are not those of the configured embedder.
    """
    wanted = None
    if reembed:
        with night_embedder(settings) as embedder:  # opened for the version of its weights
            if embedder is None:
                raise InvalidInput(
                    "EMBEDDER or NIGHT_INDEXES is none, so there is nothing to embed with. Set both, or name a model with --model."
                )
            wanted = embedder.identity

    def differs(current: Manifest | None) -> bool:
        return wanted is None or current is None or current.embedding != wanted

    return pipeline.run_nights(settings, reporter, accept=accept, rebuild=differs)


def with_model(settings: Settings, model: str) -> Settings:
    """These settings with an Ollama model, which the processes that are started read, too: the release is tested in one."""
    known_model(model, "ollama")  # reports a typo before anything else
    set_for_children(EMBEDDER="ollama", EMBED_MODEL=model)
    return settings.changed(embedder="ollama", embed_model=model)


def plan(settings: Settings, reporter: Reporter) -> dict[str, Any]:
    """What a backfill would do; nothing is written."""
    with closing(connect(settings)) as client, recomputed(settings, reporter) as catalog:
        current = open_target(settings).current()
        with night_embedder(settings) as embedder:
            return {
                "turns": catalog.counts["turns"],
                "keys": len(turn_keys(client)),
                "current": comparable(current.embedding.to_json()) if current and current.embedding else None,
                "wanted": comparable(embedder.identity.to_json()) if embedder else None,
            }


def plan_sentence(found: dict[str, Any]) -> str:
    """A plan as text."""
    current, wanted = (
        f"vectors of {one['family']} ({one['provider']})" if one else "no vectors"
        for one in (found["current"], found["wanted"])
    )
    return (
        f"The release would be built of {found['turns']} turns and of {found['keys']} keys in Redis, with {wanted}; the current one has {current}. "
        "Texts that were embedded before are in the cache. Nothing was written."
    )
