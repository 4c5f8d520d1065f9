"""A loopback server that speaks the Messages API as far as the real Claude CLI asks for it, and records every request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

from tests.servers.loopback import Loopback


@dataclass(frozen=True)
class ToolCall:
    """A reply that asks for a tool; the next request carries its result (`tool_results`)."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    call_id: str = "toolu_1"


Reply = str | ToolCall


class MessagesApi(Loopback):
    """Answers each request with `reply(request)` as server-sent events; `requests` holds the bodies received."""

    def __init__(self, reply: Callable[[dict[str, Any]], Reply] = lambda _: "All right.") -> None:
        self.requests: list[dict[str, Any]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                    return self._send(b'{"input_tokens": 10}', "application/json")
                api.requests.append(body)
                return self._send(_events(reply(body), body.get("model", "")), "text/event-stream")

            def do_GET(self) -> None:
                self._send(b"{}", "application/json")

            def do_HEAD(self) -> None:
                self._send(b"", "application/json")

            def _send(self, content: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(Handler)


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


def _events(reply: Reply, model: str) -> bytes:
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
    begun, delta, reason = _block(reply)
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": begun}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ]
    return b"".join(f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode() for name, data in events)


def _block(reply: Reply) -> tuple[dict[str, Any], dict[str, Any], str]:
    """(the block as it begins, all that is added to it, why the message ends)."""
    if isinstance(reply, str):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": reply}, "end_turn"
    begun = {"type": "tool_use", "id": reply.call_id, "name": reply.name, "input": {}}
    return begun, {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}, "tool_use"
