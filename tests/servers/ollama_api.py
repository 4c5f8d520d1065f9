"""A loopback server that speaks Ollama's API over a real socket and embeds with the shipped model (the same weights as all-minilm).

Faults are asked for by name, as a list that is used up one request at a time: "ok", "drop" (the connection is closed), "hang", "500",
"fewer" (one vector missing), "nan", "narrow" (wrong dimensions), "html" (an answer that is no JSON). `poison` maps a mark to the fault of
every request whose text contains it. A text over LONGEST characters is refused with 400, as Ollama does. `turned`: vectors of another model.
`seconds`: the time that each embed request takes, at least. `dies_after`: so many embed requests are answered, then no request at all is.
`widths` gives a model (by the name that requests use) as many dimensions: the vector, repeated and cut.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from shared.embedding.known_models import MINILM
from shared.embedding.local.embedder import LocalEmbedder
from tests.servers.loopback import Answering, Loopback

#: Characters of a text that is not refused.
LONGEST = 4000
DIGEST = "1b226e2802dbb772b5fc32a58f103ca1804ef7501331012de126ab22f67475ef"


@functools.cache
def shipped_model() -> LocalEmbedder:
    return LocalEmbedder(MINILM)


def nothing_to_change(prompt: str) -> str | None:
    """The answer of a model that finds the notes of a chat in order."""
    return '{"changes": []}' if '{"changes": []}' in prompt else None


class OllamaApi(Loopback):
    def __init__(self, models: dict[str, str] | None = None, port: int = 0) -> None:
        self.models = {"all-minilm:latest": DIGEST} if models is None else models  # name -> digest
        self.faults: list[str] = []
        self.poison: dict[str, str] = {}
        self.turned = False
        self.seconds = 0.0
        self.dies_after: int | None = None
        self.widths: dict[str, int] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.gets: list[str] = []
        self.chat_reply = "A summary."
        self.cut = False  # answers end where their tokens did
        #: Answers a prompt instead of `chat_reply`, where it has an answer.
        self.chat_with: Callable[[str], str | None] = nothing_to_change
        self._embedder = shipped_model()
        self.ended = threading.Event()
        self._lock = threading.Lock()
        super().__init__(type("Handler", (Handler,), {"api": self}), port)

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        super().__exit__(*error)

    def next_fault(self, body: dict[str, Any]) -> str:
        with self._lock:
            if self.faults:
                return self.faults.pop(0)
        said = json.dumps(body, ensure_ascii=False)
        return next((fault for mark, fault in self.poison.items() if mark in said), "ok")

    def embedded(self) -> list[list[str]]:
        """The inputs of each embed request, in order."""
        return [body["input"] for path, body in self.requests if path == "/api/embed"]

    @property
    def dead(self) -> bool:
        return self.dies_after is not None and len(self.embedded()) > self.dies_after

    def asked(self) -> list[str]:
        """The prompt of each chat request, in order."""
        return [body["messages"][-1]["content"] for path, body in self.requests if path == "/api/chat"]

    def tags(self) -> dict[str, Any]:
        rows = [{"name": name, "model": name, "digest": digest, "size": 1} for name, digest in self.models.items()]
        return {"models": rows}

    def knows(self, name: str) -> bool:
        return (name if ":" in name else f"{name}:latest") in self.models

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        rows: list[list[float]] = [self._embedder.embed_query(text).tolist() for text in texts]
        if self.turned:
            rows = [row[::-1] for row in rows]
        if fault == "fewer":
            rows = rows[:-1]
        elif fault == "narrow":
            rows = [row[:100] for row in rows]
        elif fault == "nan":
            marked = [row for row, text in enumerate(texts) if any(mark in text for mark in self.poison)]
            rows[marked[0] if marked else 0] = [float("nan")] * len(rows[0])
        return {"model": "all-minilm", "embeddings": rows, "prompt_eval_count": sum(map(len, texts)) // 4}


class Handler(Answering, BaseHTTPRequestHandler):
    api: OllamaApi

    def do_GET(self) -> None:
        self.api.gets.append(self.path)
        if self.api.dead:
            return self._hang_up()
        answers = {"/api/version": {"version": "0.13.5"}, "/api/tags": self.api.tags()}
        if self.path in answers:
            return self._send(200, answers[self.path])
        return self._send(404, {"error": "not found"})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        self.api.requests.append((self.path, body))
        if self.api.dead:
            return self._hang_up()
        model = body.get("model") or ""
        if self.path == "/api/pull":
            return self._pull(model)
        if not self.api.knows(model):
            return self._send(404, {"error": f"model '{model}' not found"})
        fault = self.api.next_fault(body)
        if fault == "drop":
            return self._hang_up()
        if fault == "hang":  # longer than any limit of a client
            self.api.ended.wait(600)
            return self._hang_up()
        if fault == "500":
            return self._send(500, {"error": "llama runner process has terminated"})
        if fault == "400":
            return self._send(400, {"error": "the input length exceeds the context length"})
        if fault == "html":
            return self._send_bytes(200, b"<html>", "text/html")
        return self._answer(body, fault)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def _answer(self, body: dict[str, Any], fault: str) -> None:
        if self.path == "/api/embed":
            time.sleep(self.api.seconds)
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            if any(len(text) > LONGEST for text in texts):
                return self._send(400, {"error": "the input length exceeds the context length"})
            answer = self.api.embed(texts, fault)
            if width := self.api.widths.get(body["model"]):
                answer["embeddings"] = [(row * (width // len(row) + 1))[:width] for row in answer["embeddings"]]
            return self._send(200, answer)
        if self.path == "/api/chat":
            said = self.api.chat_with(body["messages"][-1]["content"])
            message = {"role": "assistant", "content": self.api.chat_reply if said is None else said}
            why = "length" if self.api.cut else "stop"
            return self._send(200, {"model": body["model"], "message": message, "done": True, "done_reason": why})
        if self.path == "/api/show":
            return self._send(200, {"details": {"family": "bert"}, "model_info": {"bert.embedding_length": 384}})
        return self._send(404, {"error": "not found"})

    def _pull(self, model: str) -> None:
        name = model if ":" in model else f"{model}:latest"
        self.api.models[name] = DIGEST
        loading = [{"status": "downloading", "total": 100, "completed": number} for number in (0, 50, 100)]
        steps = [{"status": "pulling manifest"}, *loading, {"status": "success"}]
        lines = "".join(json.dumps(step) + "\n" for step in steps)
        self._send_bytes(200, lines.encode(), "application/x-ndjson")
