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

from shared.text.format import date_text, rough_duration, shorten, size_text, time_text
from shared.wire.json import well_formed

STATIC = Path(__file__).parent / "static"


@cache
def environment() -> Environment:
    """A name that a template misspells is an error, not a gap."""
    made = Environment(
        loader=PackageLoader("dispatcher.features.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "size": lambda number: "–" if number is None else size_text(number),
        "number": lambda number: "–" if number is None else f"{number:,}",
        "duration": _duration,
        "ago": ago,
        "short": shorten,
        "at": _at,
        "iso": _iso,
        "day": date_text,
        "clock": lambda moment, zone: time_text(moment, zone).split()[1],
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


def _at(moment: float | None, zone: ZoneInfo) -> str:
    """`2026-11-25 14:03`; a dash for none."""
    return "–" if moment is None else time_text(moment, zone)


def _iso(written: str | None, zone: ZoneInfo) -> str:
    """ISO 8601 as `at`; what cannot be read stays as it is."""
    try:
        return _at(datetime.fromisoformat(written).timestamp(), zone) if written else "–"
    except ValueError:
        return written or "–"


def ago(moment: float | None) -> str:
    return "never" if moment is None else f"{rough_duration(max(0.0, time.time() - moment))} ago"


def _duration(seconds: float | None) -> str:
    return "–" if seconds is None else rough_duration(seconds)
