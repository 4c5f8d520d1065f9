"""One turn as one line of an export: its value as it stood in Redis, to the byte, where a reader can tell from the line alone what it is."""

from __future__ import annotations

from shared.turns.records import RecordRefused, loads_object, turn_key


def bare_line(key: bytes, value: bytes) -> bytes | None:
    """The value of a turn's key if it can stand as a line by itself, else None: then its key, and perhaps its bytes, must be written around it.

    It can if it is a JSON object on one line that names task id and role as its key does. `kind` marks the lines that hold more than a
    value, so a value with a field of this name is none of them; a reader may strip a line, so none begins or ends with a blank.
    """
    if value[:1] != b"{" or value[-1:] != b"}" or b"\n" in value or b"\r" in value:
        return None
    try:
        record = loads_object(value)
        named = turn_key(key)
    except RecordRefused:
        return None
    return value if (record.get("task_id"), record.get("role")) == named and "kind" not in record else None
