"""What a manifest may contain: the types and bounds of its fields. A manifest that passes cannot crash a reader later.

A manifest comes from another host. Its checksum shows that it is complete, not who wrote it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from shared.config.kinds import indexes
from shared.config.values import known_zone
from shared.embedding.models import STRICT, EmbeddingIdentity

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


def _of_one_length(embedding: EmbeddingIdentity | None) -> EmbeddingIdentity | None:
    if embedding and any(len(probe) != embedding.dimensions for probe in embedding.probes):
        raise ValueError("a probe has another length than a vector")
    return embedding


Count = Annotated[int, Field(ge=0, le=1 << 53)]
Run = Annotated[int, Field(ge=0, lt=10**9)]
Hash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Zone = Annotated[str, Field(max_length=100), AfterValidator(_zone)]
IndexName = Annotated[str, AfterValidator(_index)]
Moment = Annotated[
    str, Field(pattern=r"^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\+00:00$"), AfterValidator(_moment)
]
Embedding = Annotated[EmbeddingIdentity | None, AfterValidator(_of_one_length)]
_Counts = dict[str, Count]


class _File(BaseModel):
    model_config = STRICT
    size: Count
    sha256: Hash


class _Ledger(BaseModel):
    """As nightly/night/ledger.py makes it; empty in a release that no night has made."""

    model_config = STRICT
    exported: Count = 0
    new: Count = 0
    new_version: Count = 0
    already_archived: Count = 0
    quarantined: Count = 0
    reasons: _Counts = {}
    chats: dict[str, _Counts] = {}
    turns: _Counts = {}
    chunks: Count = 0
    index: dict[str, Count | None] = {}
    not_embedded: dict[str, str] = {}


def _as(model: type[BaseModel]) -> AfterValidator:
    """A dictionary that has the fields of this model, left as it is."""

    def check(record: dict[str, Any]) -> dict[str, Any]:
        model.model_validate(record)
        return record

    return AfterValidator(check)


#: {"size": bytes, "sha256": "sha256:…"}
File = Annotated[dict[str, Any], _as(_File)]
Ledger = Annotated[dict[str, Any], _as(_Ledger)]
