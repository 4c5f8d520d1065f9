"""The record of decisions about tools (`hcli:mem:approvals`), for the owner's command."""

from __future__ import annotations

from typing import Any

from redis import Redis

from shared.turns.records import RecordRefused, loads_object
from shared.wire import keys

_TEXTS = ("id", "chat_id", "user_id", "task_id", "tool", "input_sha256", "input", "decision", "by", "name")


def approval_records(client: Redis) -> list[dict[str, Any]]:
    """Oldest first; what another program wrote is left out."""
    redis: Any = client
    found = []
    for raw in redis.lrange(keys.APPROVALS, 0, -1):
        try:
            record = loads_object(raw)
        except RecordRefused:
            continue
        if isinstance(record.get("at"), float) and all(isinstance(record.get(name), str) for name in _TEXTS):
            found.append({"at": record["at"], **{name: record[name] for name in _TEXTS}})
    return found
