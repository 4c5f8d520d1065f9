"""Templates into HTML: escaped without exception, with the filters that pages need."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from dispatcher.features.web.reading.markdown import marked
from dispatcher.memory.relevance import content_roots
from dispatcher.prompt.budget import TITLES
from dispatcher.prompt.context import plain_reason
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
        "size": _or_dash(size_text),
        "number": _or_dash("{:,}".format),
        "duration": _or_dash(rough_duration),
        "ago": _or_dash(lambda moment: f"{rough_duration(max(0.0, time.time() - moment))} ago"),
        "short": shorten,
        "plain": plain_reason,
        "marked": lambda text, question: marked(text, content_roots(question)),
        "at": _or_dash(time_text),
        "iso": _or_dash(_iso),
        "day": date_text,
        "clock": lambda moment, zone: time_text(moment, zone).split()[1],
    }
    made.globals |= {"url": url, "static": static_url, "titles": TITLES}
    return made


def url(path: str, **query: Any) -> str:
    """A path with its query; parts that are None or empty are left out. A chat id is always in the query, since it may hold any character."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


@cache
def static_url(name: str) -> str:
    """With a part of its hash, so that a browser may keep it for ever."""
    return f"/static/{name}?{hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def render(template: str, **values: Any) -> str:
    return well_formed(
        environment().get_template(template).render(**values)
    )  # half a character would be no answer at all


def _or_dash(show: Callable[..., str]) -> Callable[..., str]:
    """A dash for None."""
    return lambda value, *more: "–" if value is None else show(value, *more)


def _iso(written: str, zone: ZoneInfo) -> str:
    """ISO 8601 as `at`; what cannot be read stays as it is."""
    try:
        return time_text(datetime.fromisoformat(written).timestamp(), zone)
    except ValueError:
        return written or "–"
