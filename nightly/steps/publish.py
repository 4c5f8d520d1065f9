"""Publish: send the release to the day host, verify and test it there, switch to it atomically, and wait until it is served.

    seal ─ rsync to incoming/<run>.<attempt> ─ verify ─ test in a separate process ─ rename to releases/<run> ─ switch ─ served?

Before the switch a failure leaves `current` unchanged; after it, `current` is switched back. The release must descend from the current one
(same parent as when the night began, all of its segments) and may shrink a chat only where a tombstone says so. A killed attempt is
repeated in a new incoming directory; one that was killed after the switch only asks again whether the release is served.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from nightly.archive.catalog import open_catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.index.previous import keep
from nightly.night.folder import RESULT, Night
from nightly.night.ledger import summed, whole_ledger
from nightly.night.target import Brought
from shared.delivery.switch import refuse_unless_descendant
from shared.embedding.models import EmbeddingIdentity
from shared.errors import PublishFailed, StepTimeout
from shared.ranking.extractive_summary import SUMMARY_VERSION
from shared.release.imports import write_imports
from shared.release.manifest import Manifest, seal
from shared.system.faults import crash_point
from shared.system.files import fresh_dir
from shared.turns.chunking import CHUNKER_VERSION
from shared.turns.events import Event
from shared.wire import keys
from shared.wire.values import living, shown

SERVED_POLL_SECONDS = 0.2


def run(night: Night, out: Path) -> dict[str, Any]:
    stage = out / "release"
    _gather(night, stage)
    # as they were proven; who receives them hashes them
    files = night.result("build")["files"] | night.result("summarise")["files"]
    manifest = seal(stage, _manifest(night), files)
    current, brought = night.target.current(), Brought({})
    if current is None or current.run != night.run:
        refuse_unless_descendant(manifest, current)  # before the transfer; the day host asks again
        brought = night.target.bring(stage, night.run, accept=night.accept)
        crash_point("publish:brought")
    if warning := brought.gate.get("warn") or brought.gate.get("refuse"):  # refused, and accepted by the owner
        night.report.say(f"  {warning}")
    pinned = night.target.switch(night.run, night.lease.token)
    crash_point("publish:switched")
    if pinned is None:
        try:
            _wait_until_served(night)
        except (PublishFailed, StepTimeout):
            night.target.rollback(night.run)
            raise
    keep(night)
    crash_point("publish:index-kept")
    return {
        "files": len(manifest.files),
        "bytes": manifest.size,
        "moved": brought.moved,
        "pinned": pinned,
        "gate": brought.gate,
    }


def _gather(night: Night, stage: Path) -> None:
    """Collect the release in one directory, as links to the output files of the steps (which never change again), and what imports have brought."""
    fresh_dir(stage)
    for step in ("build", "summarise"):
        shutil.copytree(
            night.output(step), stage, copy_function=os.link, dirs_exist_ok=True, ignore=shutil.ignore_patterns(RESULT)
        )
    with open_catalog(night) as catalog, ChatReader(catalog, night.archive_dir) as reader:
        hidden = [*catalog.tombstones.values()]
        records = map(reader.raw, catalog.places_of_imports())
        events = ((Event.parse(record.key, record.value), record.value) for record in records)
        write_imports(stage, (raw for event, raw in events if not any(map(event.is_covered_by, hidden))))


def _manifest(night: Night) -> Manifest:
    chunks, embedded, summaries = night.result("chunk"), night.result("embed"), night.result("summarise")
    embedding, built = embedded["embedding"], night.result("build")
    notes, carried = night.result("note"), chunks["carried"]
    # What a model wrote tonight was archived after chunking.
    written = notes.get("texts", {}) | night.result("dream").get("texts", {}) | summaries.get("texts", {})
    return Manifest(
        run=night.run,
        parent=night.parent,
        segments=chunks["segments"] | written,
        chunker_version=CHUNKER_VERSION,
        summary_version=SUMMARY_VERSION,
        timezone=chunks["timezone"],
        indexes=built["indexes"],
        embedding=EmbeddingIdentity.from_json(embedding) if embedding else None,
        chats=carried["chats"] + sum(bool(account["turns"]) for account in chunks["accounts"].values()),
        turns=chunks["turns"],
        chunks=chunks["chunks"],
        forgotten=carried["forgotten"] + summed(chunks["accounts"], "forgotten"),
        tombstones=chunks["tombstones"],
        originals=chunks["originals"],
        erasing=chunks["erasing"],
        ledger=whole_ledger(night.result("archive")["ledger"], chunks, built, embedded),
        summary_model=summaries.get("model"),
        notes_model=notes["model"],
    )


def _wait_until_served(night: Night) -> None:
    """Every dispatcher that lives must report this run."""
    deadline = time.monotonic() + night.settings.publish_wait
    while late := {name: run for name, run in living(night.redis).items() if run != night.run}:
        if time.monotonic() > deadline:
            name, run = next(iter(late.items()))
            raise PublishFailed(
                f"Dispatcher {shown(name)} did not switch to release {night.run} within {night.settings.publish_wait:g} s; switched back. "
                + ("" if run is not None else f"Its value in {keys.RELEASE} is not a run number. ")
                + "Check its log, and that its HMEM_MEMORY_DIR is the night's PUBLISH_TARGET. If there is no such dispatcher, another program wrote "
                f"its name: redis-cli SREM {keys.WORKERS} NAME, and DEL {keys.lease('NAME')}."
            )
        time.sleep(SERVED_POLL_SECONDS)
