"""*Nights*: what each did, the releases, and what can be done about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, NotShown, go_to
from dispatcher.releases.manage import list_releases
from dispatcher.releases.night_command import NightCommandFailed, read_json, read_lines
from shared.errors import InvalidInput, ReleaseRefused
from shared.wire import keys

#: The newest nights that are read.
NIGHTS = 30
#: Figures of a night's summary that the table has.
FIGURES = ("new", "quarantined", "release_bytes")
#: The pictures of the nights: figure of `_line`, what it is, and the highest value that it can have (None: that of these nights).
PICTURES = (
    ("new", "New messages", None),
    ("whole", "Time the night took", None),
    ("found", "Recall check: questions that found their message", 1.0),
)
RUNNING = "A night is running already. Wait until it has ended."


def page(asked: Asked) -> Response:
    nights, notes = _nights(asked)
    shown, elsewhere = [_line(night) for night in nights], _running_elsewhere(asked)
    if elsewhere and shown and shown[-1]["state"] in ("unfinished", "stopped"):
        shown[-1]["state"] = "running"
    try:
        releases, wrong = list_releases(asked.settings.hmem_memory_dir)
    except (OSError, ReleaseRefused) as error:
        releases, wrong = [], f"The releases cannot be read: {error}"
    return asked.page(
        "nights.html",
        "Nights",
        nights=shown[::-1],
        pictures=[_picture(shown, *one) for one in PICTURES],
        releases=releases[::-1],
        wrong=wrong,
        elsewhere=elsewhere,
        notes=notes,
    )


def _running_elsewhere(asked: Asked) -> bool:
    """Whether a night holds the lease, whoever started it: cron, a terminal, or this page."""
    try:
        return bool(asked.redis.exists(keys.NIGHT_OWNER))
    except RedisError:
        return False  # Operations says that Redis does not answer


def _nights(asked: Asked) -> tuple[list[dict[str, Any]], list[str]]:
    """Those of this host, oldest first; the door to the night's files is its own command."""
    if not asked.settings.hmem_night_dir.exists():
        where = "On this host there is no HMEM_NIGHT_DIR: nights run on another one, and are shown there by hmem-night status."
        return [], [where]
    try:
        return read_json(asked.settings, "status", "--json", f"--nights={NIGHTS}"), []
    except NightCommandFailed as error:
        return [], [error.message or str(error)]


def _line(night: Mapping[str, Any]) -> dict[str, Any]:
    summary, failed = night["summary"], night["failed"]
    whole = sum(summary["seconds"].values()) if summary and "seconds" in summary else None
    state = "done" if summary else "stopped" if failed else "unfinished"
    if summary and "abandoned" in summary:
        state = "abandoned"
    gate = (summary or {}).get("gate") or {}
    found = gate["found_now"] / gate["questions"] if gate.get("questions") else None
    figures = {name: (summary or {}).get(name) for name in FIGURES}
    return {**night, "state": state, "whole": whole, "gate": gate, "found": found, **figures}


def _picture(nights: Sequence[Mapping[str, Any]], name: str, title: str, most: float | None) -> dict[str, Any]:
    """A bar for each night: (its height from 0 to 1, the figure, both None where there is none; the night); and the last figure that there is."""
    known = [night[name] for night in nights if night[name] is not None]
    highest = most or max(known, default=0) or 1
    bars = [(None if night[name] is None else night[name] / highest, night[name], night) for night in nights]
    return {"name": name, "title": title, "bars": bars, "last": known[-1] if known else None}


def one(asked: Asked) -> Response:
    """Its figures, and what `hmem-night status` says of it."""
    run = asked.number("run", 0)
    try:
        (night,) = read_json(asked.settings, "status", "--json", f"--run={run}")
        said = b"".join(read_lines(asked.settings, "status", "--chats", f"--run={run}"))
    except NightCommandFailed as error:
        raise NotShown from error
    return asked.page("night.html", f"Night {run}", night=_line(night), said=said.decode("utf-8", "replace"))


def run(asked: Asked) -> Response:
    if asked.jobs.running("night") is not None:
        raise InvalidInput(RUNNING)
    arguments = ["run", "--accept"] if asked.value("accept") else ["run"]
    title = "A night that accepts a release that finds less" if asked.value("accept") else "A night"
    return go_to(f"/jobs/{asked.jobs.night(title, *arguments)}")


def use_release(asked: Asked) -> Response:
    wanted = asked.number("run", 0)
    return go_to(
        f"/jobs/{asked.jobs.day(f'Back to release {wanted}', 'release', 'release', 'rollback', str(wanted), '--yes')}"
    )


def unpin(asked: Asked) -> Response:
    return go_to(f"/jobs/{asked.jobs.day('Remove the pin', 'release', 'release', 'rollback', '--unpin')}")
