"""The Ollama servers of the settings for requests of one at a time: chat models, and questions about models.

The first server that has the model is used, and the next one if it fails. One that failed is asked last for a while. All texts of one model
are written by the same version of it, whichever server writes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog

from shared.embedding.ollama_server import HOPELESS, OllamaError, OllamaServer, PulledModel

Answer = TypeVar("Answer")
log = structlog.get_logger()

#: Seconds in which a server that failed is asked after all others.
LAST_SECONDS = 300.0


class OllamaServers:
    def __init__(self, servers: Sequence[OllamaServer]) -> None:
        self.servers = tuple(servers)
        self._last_until: dict[tuple[str, str], float] = {}  # server and model
        self._digest: dict[str, str] = {}  # of the version of a model that is used
        self._have: set[tuple[str, str]] = set()  # server and model: it has that version

    def close(self) -> None:
        for server in self.servers:
            server.close()

    def models(self, attempts: int | None = None) -> dict[str, PulledModel]:
        """What is pulled at any server that answers, by name with its tag; OllamaError if none answers."""
        found: dict[str, PulledModel] = {}
        answered, failed = False, list[OllamaError]()
        for server in self.servers:
            try:
                found = server.models(attempts) | found
                answered = True
            except OllamaError as error:
                failed.append(error)
        if not answered:
            raise _together(failed)
        return found

    def find(self, name: str) -> str | None:
        """`sha256:<hex>` of a model, of the first server that has it; None if all answer and none has it."""
        failed: list[OllamaError] = []
        for server in self.servers:
            try:
                if (found := server.find(name)) is not None:
                    return found
            except OllamaError as error:
                failed.append(error)
        if failed:
            raise _together(failed)
        return None

    def digest(self, name: str) -> str:
        """The same of a model that must be there: all requests from now on go to servers that have this version."""
        digest = self._first(name, lambda server: server.digest(name))
        self._digest[name] = digest
        return digest

    def embed(self, name: str, texts: Sequence[str], attempts: int, read: Callable[[Any], Answer]) -> Answer:
        """Like OllamaServer.embed."""
        return self._first(name, lambda server: self._same(server, name).embed(name, texts, attempts, read))

    def chat(
        self, name: str, prompt: str, options: dict[str, Any], attempts: int, schema: dict[str, Any] | None = None
    ) -> str:
        """Like OllamaServer.chat."""
        return self._first(name, lambda server: self._same(server, name).chat(name, prompt, options, attempts, schema))

    def _same(self, server: OllamaServer, name: str) -> OllamaServer:
        """The server, if its version of the model is the one that is used; OllamaError."""
        if len(self.servers) > 1 and (server.url, name) not in self._have:
            found = server.digest(name)
            if found != self._digest.setdefault(name, found):
                raise OllamaError(
                    f"Ollama at {server.url} has another version of {name} than another server. Run there: ollama pull {name}",
                    f"another version of {name}", passing=False, status=404,
                )  # fmt: skip
            self._have.add((server.url, name))
        return server

    def _first(self, name: str, ask: Callable[[OllamaServer], Answer]) -> Answer:
        """The answer of the first server that can give one. A request that is refused for what it says is not sent to another."""
        failed: list[OllamaError] = []
        now = time.monotonic()
        for server in sorted(self.servers, key=lambda one: self._last_until.get((one.url, name), now) > now):
            try:
                return ask(server)
            except OllamaError as error:
                if not error.passing and error.status not in HOPELESS:
                    raise
                failed.append(error)
                self._last_until[server.url, name] = time.monotonic() + LAST_SECONDS
                self._have.discard((server.url, name))
                if len(self.servers) > 1:
                    log.warning("an Ollama server is asked last for a while", server=server.url, reason=error.reason)
        raise _together(failed)


def _together(failed: Sequence[OllamaError]) -> OllamaError:
    """One error for all servers: missing everywhere is missing."""
    if len(failed) == 1:
        return failed[0]
    passing = [error for error in failed if error.passing]
    reasons = "; ".join(dict.fromkeys(error.reason for error in failed))
    return OllamaError(
        " ".join(str(error) for error in failed),
        reasons,
        passing=bool(passing),
        status=0 if passing else failed[0].status,
    )
