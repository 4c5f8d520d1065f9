"""Old history as each program writes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

NOON = 1_770_638_400.0  # 2026-02-09 12:00:00 UTC


def bare(task_id: str, content: str, **more: Any) -> bytes:
    record = {"chat_id": "9912", "role": "user", "content": content, "timestamp": NOON, "task_id": task_id}
    return json.dumps(record | more, ensure_ascii=False).encode("utf-8", "surrogatepass")


def chunk_file(blocks: list[tuple[float, str, str]]) -> bytes:
    """As h-cli writes it."""
    text = f"=== h-cli session chunk ===\nChat: 9912\nSession: /new\nChunked: 20260209T173320Z\nTurns: {len(blocks)}\n===\n\n"
    for at, role, content in blocks:
        text += f"[{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC] {role}:\n{content}\n\n---\n\n"
    return text.encode("utf-8")


#: With what looks like the end of a block, and like the head of another one.
ANSWER = "It has two open ports.\n\n---\n\nBoth are closed:\n\n[2026-02-09 11:00:00 UTC] USER:\nclose them 🦉"


EXCHANGE = [(NOON, "USER", "scan the router"), (NOON, "ASSISTANT", ANSWER), (NOON + 9, "USER", "спасибо")]


AT = "2026-02-09T12:00:00.000000Z"


LOG: list[dict[str, Any] | str] = [
    {"timestamp": AT, "level": "INFO", "user_id": 9912, "task_id": "q1", "user_message": "сколько портов?"},  # h-cli names no event
    {"timestamp": "2026-02-09T12:00:02Z", "event": "task_started", "user_id": 9912, "task_id": "q1", "user_message": "сколько портов?"},
    {"timestamp": "2026-02-09T12:00:09Z", "level": "INFO", "task_id": "q1", "output_length": 3, "output": "Two"},
    {"timestamp": AT, "event": "task_started", "user_id": 5, "task_id": "q2", "user_message": "of somebody else"},
    {"timestamp": AT, "event": "task_completed", "task_id": "q2", "output": "for somebody else"},
    {"timestamp": AT, "event": "task_started", "user_id": 9912, "task_id": "q3", "user_message": "and now?"},
    {"timestamp": AT, "event": "task_completed", "task_id": "q3", "output": "Error: Claude Code timed out after 280 seconds"},
    {"timestamp": AT, "event": "task_completed", "task_id": "q9", "output": "nobody is known to have asked"},
    {"timestamp": AT, "event": "session_cleared", "user_id": 9912},
    "half a line {",
    {"timestamp": "noon", "event": "task_started", "user_id": 9912, "task_id": "q4", "user_message": "when?"},
]  # fmt: skip


BOT, ANN = 700_000_001, 9912


def message(number: int, sender: int, text: Any, at: float = NOON, **more: Any) -> dict[str, Any]:
    name = "Helper" if sender == BOT else "Аня"
    return {"id": number, "type": "message", "date": "2026-02-09T12:00:00", "date_unixtime": str(int(at)), "from": name,
            "from_id": f"user{sender}", "text": text, **more}  # fmt: skip


def bot_chat(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "Helper", "type": "bot_chat", "id": BOT, "messages": [*messages], **more}
