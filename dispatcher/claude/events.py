"""What the Claude CLI prints while it answers (`--output-format stream-json --include-partial-messages`): a JSON object a line.

    {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "…"}}, …}
    {"type": "assistant", …}   a whole message, after its parts
    {"type": "system", "subtype": "api_retry", "attempt": 1, …}   the service was not reached; the CLI waits, and tries it again
    {"type": "result", …}      the last line: what `--output-format json` prints alone

Only the line of the result decides about the answer (reply.py). The others are shown while it is written, and a line that cannot be read is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from shared.turns.signed import Doing

#: Events of agents that Claude itself starts have the tool call they belong to: their texts are no part of the answer.
_SUBAGENT = "parent_tool_use_id"


@dataclass(frozen=True)
class Progress:
    """What is known of an answer that is being written: its text so far, and what Claude does now (`tool`: the name of the tool; `retrying`: it
    was not reached, and is asked again)."""

    text: str = ""
    doing: Doing = "thinking"
    tool: str = ""


@dataclass
class ProgressReader:
    """Reads the lines; `report` is called at each change. A message after a call of a tool starts the text anew: the result is the last message's."""

    report: Callable[[Progress], None]
    _now: Progress = field(default_factory=Progress, init=False)

    def __call__(self, line: bytes) -> bool:
        """Whether the line is part of the result."""
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            # Words that explain why there is no answer.
            return bool(line.strip()) and not line.lstrip().startswith(b"{")
        if not isinstance(record, dict) or record.get("type", "result") == "result":  # without a type: one object alone
            return True
        event = record.get("event")
        if record.get("type") == "stream_event" and not record.get(_SUBAGENT) and isinstance(event, dict):
            self._event(event)
        elif (record.get("type"), record.get("subtype")) == ("system", "api_retry"):
            self._report(Progress(self._now.text, "retrying"))
        return False

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        block, delta = event.get("content_block"), event.get("delta")
        if kind == "message_start":
            self._report(Progress())
        elif kind == "content_block_start" and isinstance(block, dict):
            if block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use"):
                self._report(Progress(self._now.text, "tool", str(block.get("name") or "")))
            elif block.get("type") == "text":
                self._report(Progress(self._now.text, "writing" if self._now.text else "thinking"))
        elif kind == "content_block_delta" and isinstance(delta, dict) and isinstance(delta.get("text"), str):
            self._report(Progress(self._now.text + delta["text"], "writing"))

    def _report(self, progress: Progress) -> None:
        if progress != self._now:
            self._now = progress
            self.report(progress)
