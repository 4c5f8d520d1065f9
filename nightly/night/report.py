"""The last nights as numbers, for the owner's morning: no word of any chat and no chat id, since the bot's host may read them.

A night counts when it has ended: it is done (`done.json`), or it stopped and said why (`failed.json`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import redis

from nightly.night.failure import FAILED
from nightly.night.folder import DONE, RESULT, night_runs, nights_dir, read_record
from shared.config.settings import Settings
from shared.errors import MirrorFailed, PublishFailed, SettingsError, StepTimeout, explanations
from shared.text.logs import Logger
from shared.wire import keys

#: Form of the report, and the most nights in it.
VERSION, MOST = 1, 14
#: Counts that the report takes as the summary has them.
COUNTS = ("exported", "new", "new_versions", "already_archived", "quarantined", "deleted", "chats")
#: What is as it was after the night before, where a night did not come so far.
STANDING = ("turns", "chunks")
#: Errors whose own sentences name settings, hosts and files, but never a chat. Of all others the report says what their class stands for.
PLAIN = frozenset(error.exit_code for error in (SettingsError, PublishFailed, StepTimeout, MirrorFailed))
BUG = 1

log = Logger()


#: What the mirror of the archive is at the end of a night; None without one, or where nothing is known.
MIRROR_OK, MIRROR_LAGS = "ok", "lags"


def counts_of(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`results`: step → its result. A step that is not done counts 0, and None where 0 would be wrong: sizes in bytes, the mirror, and what
    archive and release hold."""
    archive, chunk, publish = (results.get(name, {}) for name in ("archive", "chunk", "publish"))
    ledger = archive.get("ledger", {})
    return {
        "exported": ledger.get("exported", results.get("export", {}).get("records", 0)),
        "new": ledger.get("new", 0),
        "new_versions": ledger.get("new_version", 0),
        "already_archived": ledger.get("already_archived", 0),
        "quarantined": ledger.get("quarantined", 0),
        "reasons": ledger.get("reasons", {}),
        "chats": sum(bool(one.get("new") or one.get("new_version")) for one in ledger.get("chats", {}).values()),
        "turns": archive.get("turns"),
        "chunks": chunk.get("chunks"),
        "refused_tombstones": archive.get("refused_tombstones", {}),
        "moved": publish.get("moved"),
        "gate": publish.get("gate", {}),
        "release_bytes": publish.get("bytes", chunk.get("bytes")),
        "media": archive.get("media", {}),
        "deleted": results.get("flush", {}).get("deleted", 0),
        "mirror": _mirror(archive, results.get("flush", {})),
        "writer": next(
            (why for name in ("note", "dream", "summarise") if (why := results.get(name, {}).get("gave_up"))), None
        ),
        "seconds": {name: result["seconds"] for name, result in results.items() if "seconds" in result},
    }


def _mirror(archive: Mapping[str, Any], flush: Mapping[str, Any]) -> str | None:
    """The last step that looked at the mirror knows best: `flush`, since texts came after `archive`."""
    if flush.get("mirror_failed"):
        return MIRROR_LAGS
    if flush.get("mirrored") is not None:
        return MIRROR_OK
    before = archive.get("mirror")
    if not before:
        return None
    return MIRROR_LAGS if "error" in before else MIRROR_OK


def read_report(settings: Settings, steps: Sequence[str]) -> list[dict[str, Any]]:
    """The newest nights of this host that have ended, ascending; `steps`: the names of the night's steps, in order."""
    found: list[dict[str, Any]] = []
    for run in reversed(night_runs(settings)):
        if len(found) > MOST:  # one more, for what the first one may not know
            break
        if night := _read_night(nights_dir(settings) / str(run), run, steps):
            found.append(night)
    return _carried(found[::-1])[-MOST:]


def _read_night(folder: Path, run: int, steps: Sequence[str]) -> dict[str, Any] | None:
    done, failed = read_record(folder / DONE), read_record(folder / FAILED)
    if done and "abandoned" not in done:
        late = failed is not None and failed["at"] >= done["finished_at"]  # an alarm, not a failure that was repaired
        return _night(run, done["finished_at"], done, _failure(failed) if failed and late else None)
    if not (done or failed):
        return None  # it is running, or was interrupted
    results = {name: result for name in steps if (result := read_record(folder / name / RESULT)) is not None}
    counts = counts_of(results) | {"free_bytes": (failed or {}).get("free_bytes")}
    if done:
        step = failed["step"] if failed else next((name for name in steps if name not in results), steps[-1])
        return _night(run, done["finished_at"], counts, {"step": step, "sentence": f"Abandoned: {done['abandoned']}."})
    return _night(run, failed["at"], counts, _failure(failed)) if failed else None


def _night(run: int, at: float, counts: Mapping[str, Any], failed: dict[str, str] | None) -> dict[str, Any]:
    gate, seconds = counts.get("gate") or {}, counts.get("seconds", {})
    return {
        "run": run,
        "finished_at": at,
        "seconds": round(sum(seconds.values()), 3),
        "steps": dict(seconds),
        **{name: counts.get(name) or 0 for name in COUNTS},
        **{name: counts.get(name) for name in STANDING},
        "refused_tombstones": sum(counts.get("refused_tombstones", {}).values()),
        "gate": {"asked": gate["questions"], "found": gate["found_now"]} if gate.get("questions") else None,
        **{name: counts.get(name) for name in ("moved", "release_bytes", "free_bytes", "mirror", "writer")},
        "failed": failed,
    }


def _carried(nights: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With what each night that stopped early left as it was."""
    last = dict.fromkeys(STANDING, 0)
    for night in nights:
        last = {name: last[name] if night[name] is None else night[name] for name in STANDING}
        night |= last
    return nights


def _failure(record: Mapping[str, Any]) -> dict[str, str]:
    """Where a night stopped, and why, without what an error's sentence may quote."""
    code = record["exit_code"]
    if code in PLAIN:
        sentence = record["sentence"]
    elif code == BUG:
        sentence = (
            f"A bug in this program ({record['error']}). Run hmem-night status for details, and please report it."
        )
    else:
        what, remedy = explanations().get(code, (f"{record['error']}.", "Run hmem-night status for details."))
        sentence = f"{what} {remedy}"
    return {"step": record["step"], "sentence": sentence}


def announce(settings: Settings, client: redis.Redis, steps: Sequence[str]) -> None:
    """Write the report of the last nights to Redis, at the end of each.

    It is an extra, so a failure is one line in the log. After a kill between `done.json` and this, the next night writes what this one did not.
    """
    try:
        report = orjson.dumps({"v": VERSION, "nights": read_report(settings, steps)})
        client.set(keys.NIGHT_REPORT, report, ex=keys.NIGHT_REPORT_TTL_SECONDS)
    except Exception as error:  # noqa: BLE001 - whatever it is, the night itself is over
        log.warning("the report of the nights was not written", why=f"{type(error).__name__}: {error}")
