"""Checks of what is remembered: the release in use, the pin, the embedder, whether it fits, and the day store."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, skipped, warning
from dispatcher.memory.tombstones import Forgotten
from shared.config.kinds import served
from shared.config.settings import Settings
from shared.embedding.known_models import name_of
from shared.embedding.models import Embedder
from shared.embedding.ollama.settings import OllamaSettings
from shared.embedding.open import open_embedder
from shared.errors import IndexServerUnavailable, ReleaseRefused, SettingsError
from shared.release.manifest import Manifest, current_release, read_manifest
from shared.vectors.base import backend_of, how_to_install, misfit
from shared.vectors.searching import AskingBackend
from shared.wire import keys

#: Seconds that Ollama may take for one answer here: enough to load a model, not enough to keep a person waiting.
OLLAMA_SECONDS = 30.0


def check_embedder(setup: Setup) -> Finding:
    """The embedder makes vectors, and they are those of the configured model."""
    embedder = _open(setup.settings)
    if embedder is None:
        return ok("EMBEDDER=none: memory is searched by words only.")
    from shared.embedding.probes import prove

    with closing(embedder):
        identity = embedder.identity
        prove(embedder)
    return ok(f"The embedder answers: {identity.family} at {identity.provider} ({identity.dimensions} dimensions).")


def _open(settings: Settings) -> Embedder | None:
    limit = min(settings.of(OllamaSettings).ollama_timeout, OLLAMA_SECONDS)
    return open_embedder(settings.changed(ollama_timeout=limit))


def check_vectors(setup: Setup) -> Finding:
    """The embedder of the day makes vectors that can be compared with those of the release."""
    release = current_release(setup.settings.hmem_memory_dir)
    if release is None:
        return skipped("Nothing to check yet: the first night builds the vectors.")
    manifest = read_manifest(release)
    chosen = backend_of(setup.settings, release, manifest)
    if setup.settings.memory_backend == "summary":
        return ok("MEMORY_BACKEND=summary: nothing is searched; of the release only the chat's summary is used.")
    if setup.settings.memory_backend == "none":
        return ok("MEMORY_BACKEND=none: memory is searched by words only.")
    if setup.settings.embedder != "none" and (why := misfit(setup.settings, manifest)):
        found, _, fix = why.partition("; ")
        return problem(
            SettingsError.exit_code,
            f"Memory is searched by words only: {found}.",
            f"{fix[0].upper()}{fix[1:]}, then run hmem-night run.",
        )
    if not isinstance(chosen, AskingBackend):
        return _no_vectors(setup.settings, f"{chosen.why_not}")
    indexed = manifest.embedding
    if indexed is None:
        return _no_vectors(setup.settings, f"release {release.name} does not record how it was embedded")
    embedder = _open(setup.settings)
    if embedder is None:
        return warning(
            f"Release {release.name} has vectors of {indexed.family}, which EMBEDDER=none does not use.",
            "Set EMBEDDER as on the night host, or leave it to search by words only.",
        )
    from shared.embedding.probes import difference

    with closing(embedder):
        why = embedder.identity.difference(indexed) or difference(embedder, indexed)
    if why is None:
        fits = f"The embedder fits release {release.name} ({indexed.family}, indexed by {indexed.provider})"
        return _cannot_open(setup.settings, release, manifest, chosen.name) or ok(
            f"{fits}, and its {chosen.name} index answers."
        )
    return problem(
        Fault.EMBEDDER_DIFFERS,
        f"The embedder differs from the one that release {release.name} was indexed with, so it is searched by words only: {why}.",
        f"Set EMBED_MODEL={name_of(indexed.family)} and EMBEDDER as on the night host, or run hmem-night backfill archive --reembed with these.",
    )


def _cannot_open(settings: Settings, release: Path, manifest: Manifest, name: str) -> Finding | None:
    """Why the index of the release cannot be searched, or None; views of it are made elsewhere, so that nothing is changed."""
    with tempfile.TemporaryDirectory(prefix="hmem-doctor-") as state:
        chosen = backend_of(settings.model_copy(update={"hmem_state_dir": Path(state)}), release, manifest)
        chosen.open()
        why = chosen.why_not
        chosen.close()
    if why is None:
        return None
    code = IndexServerUnavailable if name in served() else SettingsError if how_to_install(name) else ReleaseRefused
    fix = (
        "Fix that, or set MEMORY_BACKEND to another index of the release; until then memory is searched by words only."
    )
    return problem(code.exit_code, f"The {name} index of release {release.name} cannot be searched: {why}.", fix)


def check_store(setup: Setup) -> Finding:
    """The tombstones can be read, and the day store answers."""
    settings = setup.settings
    Forgotten(settings.hmem_state_dir).all()
    if not settings.has_day_store:
        return ok("DAY_STORE_URL=none: nothing is stored during the day.")
    from dispatcher.memory.store.database import Database
    from dispatcher.memory.store.memories import Memories

    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        if database.path is not None and not database.path.exists():
            return ok(f"There is no day store at {database.place} yet; the dispatcher creates it.")
        stored = Memories(database).count()
    sentence = f"The day store answers: {stored} facts, goals and preferences at {database.place}."
    if waiting := setup.redis.llen(keys.TAGS):
        return warning(
            f"{sentence} The tags of {waiting} answers wait to be carried out.", "Look at the log of hmem run."
        )
    return ok(sentence)


def check_forgetting(setup: Setup) -> Finding:
    """No request to forget is unfinished."""
    unfinished = unfinished_names(setup.settings.hmem_state_dir)
    if not unfinished:
        return ok("No request to forget is unfinished.")
    return warning(
        f"What should be forgotten may still be stored somewhere: {', '.join(unfinished)} started but is not complete.",
        "Run hmem forget --resume; its receipt says what is pending.",
    )


def _no_vectors(settings: Settings, why: str) -> Finding:
    """A release that cannot be searched by meaning, which is intended where there is no embedder."""
    if settings.embedder == "none":
        return ok(f"Memory is searched by words only: EMBEDDER=none, and {why}.")
    fix = (
        "Set NIGHT_INDEXES and EMBEDDER on the night host and MEMORY_BACKEND here as intended, then run hmem-night run."
    )
    return warning(f"Memory is searched by words only: {why.partition(';')[0]}.", fix)
