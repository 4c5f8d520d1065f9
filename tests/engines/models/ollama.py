"""Ollama's API in front of llama.cpp's servers: requests and answers are translated, and nothing is added to what the models say.

llama.cpp's server has none of Ollama's addresses. `asked` has each chat request with its answer, as Ollama's client sees both.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx

from tests.servers.loopback import Answering, Loopback

#: A model's name in Ollama → its file and the address of its server.
Models = dict[str, tuple[Path, str]]


class Ollama(Loopback):
    """`limit`: tokens of an answer, whatever the request allows."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.limit: int | None = None
        self.asked: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.embedded: list[str] = []
        self.client = httpx.Client(timeout=600)
        self._tags = [_tag(name, path) for name, (path, _) in models.items()]
        super().__init__(type("Handler", (Handler,), {"api": self}))

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.client.close()

    def tags(self) -> dict[str, Any]:
        return {"models": self._tags}

    def chat(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        options = body["options"]
        most = min(options["num_predict"], self.limit or options["num_predict"])
        asked = {name: options[name] for name in ("temperature", "seed")}
        asked |= {"messages": body["messages"], "max_tokens": most}
        if body.get("format"):
            asked["response_format"] = {"type": "json_schema", "json_schema": {"schema": body["format"]}}
        status, said = self._post(body["model"], "/v1/chat/completions", asked)
        if status != 200:
            return status, said
        (choice,) = said["choices"]
        content, reason = choice["message"]["content"], choice["finish_reason"]
        answer = {
            "model": body["model"],
            "message": {"role": "assistant", "content": content},
            "done": True,
            "done_reason": reason,
            "prompt_eval_count": said["usage"]["prompt_tokens"],
            "eval_count": said["usage"]["completion_tokens"],
        }
        self.asked.append((body, answer))
        return status, answer

    def embed(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, said = self._post(body["model"], "/v1/embeddings", {"input": body["input"]})
        if status != 200:
            return status, said
        self.embedded += body["input"]
        return status, {"model": body["model"], "embeddings": [one["embedding"] for one in said["data"]]}

    def _post(self, model: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(status, answer, or the error as Ollama has it)."""
        answer = self.client.post(self.models[_tagged(model)][1] + path, json=body)
        said: dict[str, Any] = answer.json()
        return answer.status_code, said if answer.status_code == 200 else {"error": said["error"]["message"]}


class Handler(Answering):
    api: Ollama

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        answers = {"/api/version": {"version": "0.13.5"}, "/api/tags": self.api.tags()}
        if self.path in answers:
            return self._send(200, answers[self.path])
        return self._send(404, {"error": "not found"})

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        body = json.loads(self._body())
        answers = {"/api/chat": self.api.chat, "/api/embed": self.api.embed}
        if self.path not in answers:
            return self._send(404, {"error": "not found"})
        if _tagged(body["model"]) not in self.api.models:
            return self._send(404, {"error": f"model '{body['model']}' not found"})
        return self._send(*answers[self.path](body))


def _tagged(name: str) -> str:
    return name if ":" in name else f"{name}:latest"


def _tag(name: str, path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"name": name, "model": name, "digest": hashlib.sha256(content).hexdigest(), "size": len(content)}
