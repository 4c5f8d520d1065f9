"""JSON as it crosses the wire: read strictly, from bytes; written so that half of a surrogate pair survives."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson


class RecordRefused(ValueError):
    """A record that cannot be accepted; the message is the reason that is stored with its bytes."""


def dumps(value: Any) -> bytes:
    """JSON bytes; a lone surrogate (which orjson refuses) is written as an escape."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def loads_object(raw: bytes) -> dict[str, Any]:
    """A JSON object from bytes, or RecordRefused."""
    try:
        value = _loads(raw)
    except UnicodeDecodeError as error:
        raise RecordRefused(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise RecordRefused("nested too deep") from error
    except ValueError as error:
        raise RecordRefused(f"not JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise RecordRefused(f"a JSON object was expected, not {type(value).__name__}")
    return value


def record_of(raw: bytes) -> dict[str, Any]:
    """The same, where another program's value counts as nothing: empty for what is no JSON object."""
    try:
        return loads_object(raw)
    except RecordRefused:
        return {}


def _loads(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def well_formed(text: str) -> str:
    """The text with U+FFFD instead of each lone surrogate; the two halves of a pair become their character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_of(record: dict[str, Any], name: str) -> str:
    """A field that must be text, or RecordRefused."""
    value = record.get(name)
    if not isinstance(value, str):
        raise RecordRefused(f"{name} is missing" if value is None else f"{name} has type {type(value).__name__}")
    return value
