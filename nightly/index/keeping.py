"""Keeping what a published night has made, for the next one (nightly/index/previous.py says where, and what is trusted)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from nightly.index.kept_chats import CHATS, Account, carried_from, combined, sums_of, write_chats
from nightly.index.previous import FORMAT, INDEX, LAST
from nightly.index.recipe import comparable
from nightly.night.folder import Night
from shared.errors import HmemError
from shared.system.faults import crash_point
from shared.system.files import commit_dir, fresh_dir, remove_tree, sha256_bytes, sha256_file, write_atomic


def keep(night: Night) -> None:
    """Keep the indexes and summaries of this night, whose release is published, instead of the earlier ones. Repeating it changes nothing.

    A disk error here only makes the next night some minutes longer.
    """
    if "skipped" in night.result("build"):
        return
    try:
        _keep(night, night.settings.hmem_night_dir / LAST)
    except (OSError, HmemError) as error:
        night.report.say(f"  The indexes could not be stored for the next night, which will rebuild them: {error}")


def _keep(night: Night, base: Path) -> None:
    kept, temporary = base / str(night.run), base / f"{night.run}.tmp"
    if not kept.is_dir():
        fresh_dir(temporary)
        places, files = dict[str, Any](), dict[str, Any]()
        for step in ("build", "summarise"):
            made = night.result(step)
            for place in made["places"]:
                shutil.copytree(night.output(step) / place, temporary / place, copy_function=os.link)
            places |= made["places"]
            files |= {name: file for name, file in made["files"].items() if name.partition("/")[0] in made["places"]}
        for name, file in files.items():
            file["modified"] = (temporary / name).stat().st_mtime_ns
        about = {
            "format": FORMAT,
            "places": places,
            "files": files,
            "tombstones": list(night.result("chunk").get("tombstones", ())),
            **_keep_chats(night, temporary),
        }
        body = orjson.dumps(about, option=orjson.OPT_SORT_KEYS)
        write_atomic(temporary / INDEX, sha256_bytes(body).encode() + b"\n" + body)
        crash_point("publish:kept-written")
        commit_dir(temporary, kept)
    for other in list(base.iterdir()):
        if other != kept:
            remove_tree(other)


def _keep_chats(night: Night, temporary: Path) -> dict[str, Any]:
    """Write what is known of each chat; the fields of the record that are about them."""
    made = night.result("chunk")
    tonight = dict(_tonight(night, made, night.result("build")))
    write_chats(temporary / CHATS, carried_from(night), tonight)
    recipe = made["recipe"] | {"embedding": comparable(night.result("embed")["embedding"])}
    sums = combined(made["carried"], sums_of(record[1] for record in tonight.values() if record))
    return {"recipe": recipe, "chats": sha256_file(temporary / CHATS), "sums": sums}


def _tonight(
    night: Night, made: Mapping[str, Any], built: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, Account] | None]]:
    """(chat, its digest and account) of the chats that were done tonight. Without a digest: a text of it waits for a better answer."""
    notes, summaries = night.result("note"), night.result("summarise")
    written = frozenset(summaries["written"])
    again = {one["chat_id"] for one in made["set_aside"].values()} | {*notes["again"], *summaries["again"]}
    for chat_id, account in made["accounts"].items():
        if chat_id not in made["digests"]:
            yield chat_id, None
            continue
        indexed = built["indexed"].get(chat_id, {})
        record = account | {
            **indexed,
            "turns": made["turns_per_chat"].get(chat_id, 0),
            "notes": notes["notes_per_chat"].get(chat_id, 0),
            "rows": built["rows"].get(chat_id, {}),
            "summaries": int(chat_id in written),
        }
        retried = chat_id in again or indexed.get("not_embedded")
        yield chat_id, ("" if retried else made["digests"][chat_id], record)
