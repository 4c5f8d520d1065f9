"""What is forgotten of questions about tools: their records, open questions and answers."""

from __future__ import annotations

from collections.abc import Iterator

from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader, number_of, record_of
from dispatcher.chat_data.forget.request import Scope
from dispatcher.features.approvals import keys

LAYER = "redis: approvals"


def approvals_of(scope: Scope, reader: RedisReader) -> Iterator[RedisEntry]:
    """The scan does not search for their words, which are Claude's: nothing of them is left."""
    for raw in reader.entries(keys.RECORDS):
        record, text = record_of(raw), raw.decode("utf-8", "replace")
        chat_id, at = str(record.get("chat_id", "")), number_of(record.get("at"))
        if scope.covers_text(chat_id, str(record.get("task_id", "")), at, text):
            yield RedisEntry(LAYER, keys.RECORDS.encode(), raw, "entry")
    for name, raw in reader.fields(keys.OPEN):
        if record_of(raw).get("chat_id") in (*scope.chats, None) or scope.asked.holds(raw.decode("utf-8", "replace")):
            yield RedisEntry(LAYER, keys.OPEN.encode(), raw, "field", name=name)
    for key, raw in reader.scan(keys.decision("*")):
        if record_of(raw).get("chat_id") in (*scope.chats, None):
            yield RedisEntry(LAYER, key, b"", "key")
