"""Checks of what is remembered: the release in use, the pin, the embedder, whether it fits, and the day store."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, skipped, warning
from dispatcher.health.night_records import read_records
from dispatcher.health.nights import STALE_HOURS, read_nights, since_then
from dispatcher.memory.tombstones import Forgotten
from shared.config.settings import Settings
from shared.embedding.known_models import name_of
from shared.embedding.models import Embedder
from shared.embedding.open import open_embedder
from shared.errors import HmemError, IndexServerUnavailable, MemoryStale, ReleaseRefused, SettingsError
from shared.release.manifest import (
    LEXICAL,
    MANIFEST,
    RELEASES,
    REPAIR,
    Manifest,
    current_release,
    no_release,
    read_manifest,
    verify,
)
from shared.release.parts import part_files
from shared.release.retention import read_pin
from shared.text.format import zoned_text
from shared.vectors.base import how_to_install
from shared.vectors.registry import SERVED, backend_of, misfit, served_builder_of
from shared.vectors.searching import AskingBackend
from shared.wire import keys

#: Seconds that Ollama may take for one answer here: enough to load a model, not enough to keep a person waiting.
OLLAMA_SECONDS = 30.0


def check_release(setup: Setup) -> Finding:
    """There is a release, and this user can read it with this program."""
    memory = setup.settings.hmem_memory_dir
    try:
        if not memory.is_dir():
            return problem(
                Fault.MEMORY_MISSING,
                f"The memory directory {memory} is {'not a directory' if memory.exists() else 'missing'}, so nothing can be recalled.",
                "Set HMEM_MEMORY_DIR to where the night publishes, mount it, or create it (sudo install -d -m 700 -o USER).",
            )
        return _look_at(setup, memory)
    except PermissionError as error:
        return _unreadable(Path(error.filename or memory))


def _look_at(setup: Setup, memory: Path) -> Finding:
    if locked := _locked(memory, memory / "releases"):
        return _unreadable(locked)
    release = current_release(memory)
    if release is None:
        sentence, _, fix = no_release(memory).partition(". ")
        if any((memory / RELEASES).glob("[0-9]*")):
            return problem(ReleaseRefused.exit_code, f"{sentence}.", fix)
        return _after_a_night(setup, memory) or warning(f"{sentence}.", fix)
    texts = release / LEXICAL
    if locked := _locked(release, release / MANIFEST, texts) or _locked(*part_files(texts)):
        return _unreadable(locked)
    manifest = verify(release) if setup.thorough else _same_sizes(release)
    return ok(f"Release {manifest.run} is intact: {manifest.turns} turns of {manifest.chats} chats.")


def _same_sizes(release: Path) -> Manifest:
    """ReleaseRefused for the first file that is missing or has another size; the content is not read."""
    manifest = read_manifest(release)
    for name, expected in manifest.files.items():
        with suppress(OSError):
            if (release / name).stat().st_size == expected["size"]:
                continue
        raise ReleaseRefused(
            f"Release {manifest.run}: {name} is missing or was changed. {REPAIR} Until then hmem release rollback RUN goes back to an intact one."
        )
    return manifest


def _after_a_night(setup: Setup, memory: Path) -> Finding | None:
    """Why there is no release yet though a night has ended well; None if none has, or Redis does not say so."""
    client: Any = setup.redis
    try:
        last = read_nights([client.get(keys.NIGHT_LAST), None]).good
        records = read_records(client.get(keys.NIGHT_REPORT))
    except RedisError:  # which other checks name
        return None
    if last is None:
        return None
    if any(one.run == last[0] and one.turns == 0 for one in records):
        return ok(f"There is no release in {memory} yet: at the end of night {last[0]} the archive had no turns.")
    return warning(
        f"There is no release in {memory}, though night {last[0]} has ended well.",
        "Set HMEM_MEMORY_DIR to where the night publishes its releases, or mount that there.",
    )


def _locked(*paths: Path) -> Path | None:
    """The first that exists and that this user may not read."""
    for path in paths:
        rights = os.R_OK | (os.X_OK if path.is_dir() else 0)
        if path.exists() and not os.access(path, rights):
            return path
    return None


def _unreadable(path: Path) -> Finding:
    return problem(
        Fault.MEMORY_UNREADABLE,
        f"{path} may not be read by this user (uid {os.geteuid()}), so nothing can be recalled.",
        "Run dispatcher, night and this command as the same user, or give it the files (sudo chown -R USER).",
    )


def check_pin(setup: Setup) -> Finding:
    """Nights may switch to the releases that they publish."""
    pin = read_pin(setup.settings.hmem_memory_dir)
    if pin is None:
        return ok("No release is pinned: each night switches to its own.")
    fix = "Run hmem release unpin as soon as the reason for the pin is fixed: the next night then switches and deletes as usual."
    hours = (setup.now() - pin.since) / 3600
    if hours > STALE_HOURS:
        sentence = f"Release {pin.run} has been pinned for {hours:.0f} hours: {since_then(setup.settings)}, and not deleted from Redis."
        return problem(MemoryStale.exit_code, sentence, fix)
    since = zoned_text(pin.since, setup.settings.timezone)
    return warning(
        f"Release {pin.run} is pinned since {since}: nights publish without switching, and delete nothing.", fix
    )


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
    limit = min(settings.ollama_timeout, OLLAMA_SECONDS)
    return open_embedder(settings.model_copy(update={"ollama_timeout": limit}))


def check_vectors(setup: Setup) -> Finding:
    """The embedder of the day makes vectors that can be compared with those of the release."""
    release = current_release(setup.settings.hmem_memory_dir)
    if release is None:
        return skipped("There is no release to compare the embedder with.")
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
        return (
            _cannot_open(setup.settings, release, manifest, chosen.name)
            or _may_lose_vectors(setup.settings, chosen.name)
            or ok(f"{fits}, and its {chosen.name} index answers.")
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
    code = IndexServerUnavailable if name in SERVED else SettingsError if how_to_install(name) else ReleaseRefused
    fix = (
        "Fix that, or set MEMORY_BACKEND to another index of the release; until then memory is searched by words only."
    )
    return problem(code.exit_code, f"The {name} index of release {release.name} cannot be searched: {why}.", fix)


def _may_lose_vectors(settings: Settings, name: str) -> Finding | None:
    """Why a night would refuse the server of an index that answers, or None."""
    if name not in SERVED:
        return None
    try:
        served_builder_of(name, settings, 0).refuse_unless_usable()
    except HmemError as error:
        why, _, fix = str(error).partition(". ")
        return problem(error.exit_code, f"The {name} index answers, but a night would refuse its server. {why}.", fix)
    return None


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
        stored = Memories(database).total()
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
