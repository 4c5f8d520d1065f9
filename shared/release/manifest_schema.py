"""What a manifest may contain: the type and bounds of every field. A manifest that passes cannot crash a reader later.

A manifest comes from another host. Its checksum shows that it is complete, not who wrote it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from shared.config.kinds import indexes
from shared.config.values import known_zone

#: Bytes of a manifest. It has nothing of a single chat but what the night exported of it, and tombstones.
MOST_BYTES = 49_000_000


def _zone(name: str) -> str:
    try:
        return known_zone(name)
    except ValueError:
        raise ValueError("it names a time zone that this host does not know") from None


def _index(name: str) -> str:
    if name not in indexes():
        raise ValueError("it names an index that this program does not know")
    return name


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


_Count = Annotated[int, Field(ge=0, le=1 << 53)]
_Run = Annotated[int, Field(ge=0, lt=10**9)]
_Word = Annotated[str, Field(max_length=1000)]
_Hash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_Zone = Annotated[str, Field(max_length=100), AfterValidator(_zone)]
_Index = Annotated[str, AfterValidator(_index)]
_Moment = Annotated[
    str, Field(pattern=r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\+00:00$"), AfterValidator(_moment)
]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Counts = dict[str, _Count]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class _File(_Strict):
    size: _Count
    sha256: _Hash


class _Prefixes(_Strict):
    document: _Word
    query: _Word


class _Embedding(_Strict):
    family: _Word
    dimensions: Annotated[int, Field(ge=1, le=1 << 16)]
    prefixes: _Prefixes
    provider: _Word
    digest: _Word
    probes: list[list[_Number]] = []

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        if any(len(probe) != self.dimensions for probe in self.probes):
            raise ValueError("a probe has another length than a vector")
        return self


class _Ledger(_Strict):
    """As nightly/night/ledger.py makes it; empty in a release that no night has made."""

    exported: _Count = 0
    new: _Count = 0
    new_version: _Count = 0
    already_archived: _Count = 0
    quarantined: _Count = 0
    reasons: _Counts = {}
    chats: dict[str, _Counts] = {}
    turns: _Counts = {}
    chunks: _Count = 0
    index: dict[str, _Count | None] = {}
    not_embedded: dict[str, str] = {}


class _Shape(_Strict):
    format_version: Annotated[int, Field(ge=1)]
    run: _Run
    parent: _Run | None
    created_at: _Moment
    segments: dict[str, _Hash]
    originals: dict[str, _Hash]
    chunker_version: _Count
    summary_version: _Count
    timezone: _Zone
    indexes: list[_Index]
    embedding: _Embedding | None
    summary_model: _Word | None
    notes_model: _Word | None
    chats: _Count
    turns: _Count
    chunks: _Count
    forgotten: _Count
    tombstones: dict[str, str]
    erasing: list[str]
    ledger: _Ledger
    files: dict[str, _File]


def check(record: dict[str, Any]) -> None:
    """ValueError, in one line that quotes nothing of the record, if a field is missing, unknown, of another type or out of bounds."""
    try:
        _Shape.model_validate(record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = first["loc"][0] if first["loc"] and first["loc"][0] in _Shape.model_fields else "an unknown field"
        raise ValueError(f"{field}: {first['msg'].removeprefix('Value error, ')}") from None
