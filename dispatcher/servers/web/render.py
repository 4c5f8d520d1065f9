"""Templates into HTML: escaped without exception, with the filters that pages need."""

from __future__ import annotations

import hashlib
import time
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from shared.text.format import shorten, size_text
from shared.wire.json import well_formed

STATIC = Path(__file__).parent / "static"


@cache
def environment() -> Environment:
    """A name that a template misspells is an error, not a gap."""
    made = Environment(
        loader=PackageLoader("dispatcher.servers.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "size": lambda number: "–" if number is None else size_text(number),
        "number": lambda number: "–" if number is None else f"{number:,}",
        "duration": duration,
        "ago": ago,
        "short": shorten,
        "at": _at,
        "iso": _iso,
        "day": lambda moment, zone: _moment(moment, zone).strftime("%Y-%m-%d"),
        "clock": lambda moment, zone: _moment(moment, zone).strftime("%H:%M"),
    }
    made.globals |= {"url": url, "static": static_url}
    return made


def url(path: str, **query: Any) -> str:
    """A path with its query; parts that are None or empty are left out. A chat id is always in the query, since it may hold any character."""
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


@cache
def static_url(name: str) -> str:
    """With a part of its hash, so that a browser may keep it for ever."""
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def render(template: str, **values: Any) -> str:
    return well_formed(
        environment().get_template(template).render(**values)
    )  # half a character would be no answer at all


def _moment(moment: float, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(moment, zone)


def _at(moment: float | None, zone: ZoneInfo) -> str:
    """`2026-11-25 14:03`; a dash for none."""
    return "–" if moment is None else _moment(moment, zone).strftime("%Y-%m-%d %H:%M")


def _iso(written: str | None, zone: ZoneInfo) -> str:
    """ISO 8601 as `at`; what cannot be read stays as it is."""
    try:
        return _at(datetime.fromisoformat(written).timestamp(), zone) if written else "–"
    except ValueError:
        return written or "–"


def ago(moment: float | None) -> str:
    return "never" if moment is None else f"{duration(max(0.0, time.time() - moment))} ago"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min`, `5 hours`, `2 days`."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
