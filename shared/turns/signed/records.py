"""Records in Redis that our programs believe only if one of them has signed them: whoever else may write there can neither speak as the bot nor
let anybody in. The signature is an HMAC under RESULT_HMAC_KEY over the record and its place, so that none can be moved to another one."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from shared.wire.json import RecordRefused, dumps, loads_object

if TYPE_CHECKING:
    from shared.config.settings import Settings

_FIELD = "hmac"


def sign_record(secret: str, place: str, record: Mapping[str, Any]) -> bytes:
    """The record as JSON with its signature. `place`: its key, or `<key> <field>` for a field of a hash."""
    return dumps({**record, _FIELD: _signature(secret, place, loads_object(dumps(record)))})


def signed_record(secret: str, place: str, raw: bytes) -> dict[str, Any]:
    """The record without its signature; RecordRefused for one that was not signed for this place."""
    record = loads_object(raw)
    signature = record.pop(_FIELD, None)
    try:
        wanted = _signature(secret, place, record)
    except RecursionError:
        raise RecordRefused("it is nested too deep") from None
    if not isinstance(signature, str) or not hmac.compare_digest(
        signature.encode("utf-8", "surrogatepass"), wanted.encode("ascii")
    ):
        raise RecordRefused("it is not signed with our RESULT_HMAC_KEY")
    return record


@dataclass(frozen=True)
class SignedRecord:
    """What our programs tell each other, or themselves for later, about one task or question, signed for its id alone. `kind`: the word before that
    id, so that none can be taken for another kind; `most_bytes`: none is larger, written as JSON (unless said otherwise: Redis holds no larger)."""

    kind: ClassVar[str]
    most_bytes: ClassVar[int] = 512 << 20

    def content(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of(cls, content: dict[str, Any]) -> Self:
        """TypeError if a field is missing; fields that only another version knows are left out."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})

    def to_json(self, secret: str, name: str) -> bytes:
        return sign_record(secret, f"{self.kind} {name}", self.content())

    @classmethod
    def verified(cls, secret: str, name: str, raw: bytes) -> Self:
        """What was signed under this id; RecordRefused for anything else."""
        if len(raw) > cls.most_bytes:
            raise RecordRefused(f"{len(raw)} bytes are too many")
        try:
            return cls.of(signed_record(secret, f"{cls.kind} {name}", raw))
        except TypeError:
            raise RecordRefused("a field is missing: another version of the program has signed it") from None


def secret_in(settings: Settings) -> str:
    """RESULT_HMAC_KEY; "" where there is none: the bot, which must have one, believes nothing that is signed without it."""
    return settings.result_hmac_key.get_secret_value() if settings.result_hmac_key else ""


def _signature(secret: str, place: str, record: dict[str, Any]) -> str:
    own = hashlib.sha256(b"records in Redis\n" + secret.encode()).digest()  # what signs results signs nothing else
    content = json.dumps([place, record], sort_keys=True, ensure_ascii=True)
    return hmac.new(own, content.encode("ascii"), hashlib.sha256).hexdigest()
