"""A loopback server that speaks the Messages API as far as the real Claude CLI asks for it, and records every request."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import Any
from uuid import uuid4

from tests.servers.loopback import Answering, Loopback


@dataclass(frozen=True)
class ToolCall:
    """A reply that asks for a tool; the next request carries its result (`tool_results`)."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str = "toolu_1"


@dataclass(frozen=True)
class Streamed:
    """A reply that comes in pieces, `pause` seconds apart: text, the thinking ahead of it, and a call of a tool at its end."""

    pieces: tuple[str, ...] = ()
    pause: float = 0.0
    thinking: tuple[str, ...] = ()
    call: ToolCall | None = None


Reply = str | ToolCall | Streamed
Event = tuple[str, dict[str, Any]]


class MessagesApi(Loopback):
    """Answers each request with `reply(request)` as server-sent events; `requests` holds the bodies received."""

    def __init__(self, reply: Callable[[dict[str, Any]], Reply] = lambda _: "All right.") -> None:
        self.requests: list[dict[str, Any]] = []
        self.first_words_at: list[float] = []  # time.monotonic() of the first words of each reply that is streamed
        api = self

        class Handler(Answering, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self._body() or b"{}")
                if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                    return self._send(200, {"input_tokens": 10})
                api.requests.append(body)
                said = reply(body)
                if isinstance(said, Streamed):
                    return self._stream(said, body.get("model", ""))
                whole = Streamed((said,)) if isinstance(said, str) else Streamed(call=said)
                return self._send_bytes(200, _sent(_events(whole, body.get("model", ""))), "text/event-stream")

            def _stream(self, said: Streamed, model: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                api.stream(self.wfile, said, model)

            def do_GET(self) -> None:
                self._send(200, {})

            def do_HEAD(self) -> None:
                self._send_bytes(200, b"", "application/json")

        super().__init__(Handler)

    def stream(self, out: BufferedIOBase, said: Streamed, model: str) -> None:
        """Write a reply in its pieces."""
        worded = False
        with contextlib.suppress(OSError):  # the CLI was ended meanwhile
            for name, data in _events(said, model):
                if data.get("delta", {}).get("type") == "text_delta" and not worded:
                    self.first_words_at.append(time.monotonic())
                    worded = True
                out.write(_sent([(name, data)]))
                out.flush()
                if name == "content_block_delta":
                    time.sleep(said.pause)


def tool_results(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of tool calls that the last message of a request carries."""
    content = request["messages"][-1]["content"]
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if block.get("type") == "tool_result"]


def tag_code(request: dict[str, Any]) -> str:
    """The tag code that a request gives, as a model reads it: in the system prompt, or in the newest message."""
    system = "\n".join(block["text"] for block in request["system"])
    newest = [one for one in request["messages"] if one["role"] == "user"][-1]["content"]
    message = newest if isinstance(newest, str) else "\n".join(block.get("text", "") for block in newest)
    return str(re.findall(r"^Tag code of this request: (\w+)$", f"{message}\n{system}", re.MULTILINE)[-1])


def _events(said: Streamed, model: str) -> list[Event]:
    message: dict[str, Any] = {
        "id": f"msg_{uuid4().hex}",  # the CLI takes two of one id for one message
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if said.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in said.thinking]
        signed = {"type": "signature_delta", "signature": "c2lnbmVk"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]))
    if said.pieces:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in said.pieces]))
    if said.call:
        begun = {"type": "tool_use", "id": said.call.call_id, "name": said.call.name, "input": {}}
        blocks.append((begun, [{"type": "input_json_delta", "partial_json": json.dumps(said.call.arguments)}]))
    reason = "tool_use" if said.call else "end_turn"
    events: list[Event] = [("message_start", {"message": message})]
    for index, (begun, deltas) in enumerate(blocks):
        events.append(("content_block_start", {"index": index, "content_block": begun}))
        events += [("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
        events.append(("content_block_stop", {"index": index}))
    return [
        *events,
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ]


def _sent(events: list[Event]) -> bytes:
    return b"".join(f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode() for name, data in events)
