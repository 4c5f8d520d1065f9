"""A partial answer, as it crosses the wire while Claude writes: what is to be shown until the result is there."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from shared.wire.json import RecordRefused, dumps, loads_object, text_of

#: The most of an answer that is shown while it is written: its end. Characters.
TEXT_CHARACTERS = 16_000
#: The longest name of a tool. Characters.
TOOL_CHARACTERS = 80
#: No partial answer is larger, written as JSON (a character takes up to 12 bytes there). Bytes.
PARTIAL_BYTES = 12 * TEXT_CHARACTERS + 4_096

Doing = Literal["thinking", "writing", "tool"]
_DOING = ("thinking", "writing", "tool")


@dataclass(frozen=True)
class PartialAnswer:
    """`number` grows with each one of a task, across dispatchers too: an older one is never shown after a newer one.

    The signature is over all of it, for this task alone, so nobody else with Redis access can put words into the chat. What is signed ends with a
    bracket, and no result that is signed does: neither can be taken for the other. `chat_id` is for `hmem forget`.
    """

    chat_id: str
    number: int
    text: str
    doing: Doing = "writing"
    tool: str = ""

    def to_json(self, key: str, task_id: str) -> bytes:
        return dumps({**vars(self), "hmac": self._signature(key, task_id)})

    @classmethod
    def verified(cls, key: str, task_id: str, raw: bytes) -> Self:
        """The partial answer that was signed for this task; RecordRefused for anything else."""
        record = loads_object(raw)
        partial = cls._parse(record)
        expected = partial._signature(key, task_id).encode("ascii")
        if not hmac.compare_digest(expected, text_of(record, "hmac").encode("utf-8", "surrogatepass")):
            raise RecordRefused("its signature is wrong")
        return partial

    @classmethod
    def _parse(cls, record: dict[str, Any]) -> Self:
        number, doing = record.get("number"), record.get("doing")
        if not isinstance(number, int) or isinstance(number, bool) or doing not in _DOING:
            raise RecordRefused("it is not a partial answer")
        texts = [text_of(record, name) for name in ("chat_id", "text", "tool")]
        return cls(texts[0], number, texts[1], cast(Doing, doing), texts[2])

    def _signature(self, key: str, task_id: str) -> str:
        signed = json.dumps([task_id, self.chat_id, self.number, self.text, self.doing, self.tool])
        return hmac.new(key.encode("utf-8"), f"partial:{signed}".encode("ascii"), hashlib.sha256).hexdigest()
