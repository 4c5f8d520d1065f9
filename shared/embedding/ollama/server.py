"""One Ollama server, through its client library: its models, requests, and its errors as ours.

Every request has a time limit. Transient failures (a dropped connection, a time-out, an answer of 5xx, an invalid answer) are retried with
doubling pauses; others (4xx) are not. `OllamaError` says which it was, so that callers can tell a bad text from a bad server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import httpx
import ollama
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from shared.errors import EmbeddingError

Answer = TypeVar("Answer")

#: What the client raises; the last three where the answer is no JSON, or not what was asked for.
FOREIGN = (httpx.HTTPError, ConnectionError, ollama.ResponseError, ValueError, KeyError, TypeError)
#: Connecting, and the question whether the server lives, take at most this, however long a request may.
CONNECT_SECONDS = 10.0
#: Statuses that no other text would change: not allowed, no such model.
HOPELESS = (401, 403, 404)
#: How often a request is tried, and the pauses between: the first, doubled each time up to the longest. Seconds.
ATTEMPTS, CHAT_ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE = 3, 2, 0.5, 8.0


class OllamaError(EmbeddingError):
    """`reason` is the short form, without the server's name; `passing`: the same request may succeed; `status`: HTTP's, 0 without one."""

    def __init__(self, sentence: str, reason: str, *, passing: bool, status: int = 0) -> None:
        super().__init__(sentence)
        self.reason, self.passing, self.status = reason, passing, status


class _Client(ollama.Client):
    """The client with the one request that it lacks."""

    def version(self, timeout: float) -> str:
        return str(self._request_raw("GET", "/api/version", timeout=timeout).json()["version"])  # type: ignore[no-untyped-call]


class OllamaServer:
    def __init__(self, url: str, timeout_seconds: float) -> None:
        self.url, self._seconds = url, timeout_seconds
        limit = httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, CONNECT_SECONDS))
        self._client = _Client(host=url, timeout=limit)

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def version(self) -> str:
        """The server's version, or OllamaError: it does not answer."""
        return self._ask(self._client.version, ATTEMPTS, timeout=min(self._seconds, CONNECT_SECONDS))

    def find(self, name: str) -> str | None:
        """`sha256:<hex>` of a model that is pulled, or None."""
        pulled = self._ask(self._client.list, ATTEMPTS).models
        wanted = name if ":" in name else f"{name}:latest"
        digest = next((one.digest or "" for one in pulled if one.model == wanted), None)
        return None if digest is None else f"sha256:{digest.removeprefix('sha256:')}"

    def digest(self, name: str) -> str:
        """The same of a model that must be there."""
        found = self.find(name)
        if found is None:
            raise OllamaError(
                f"Ollama at {self.url} has no model {name}. Run: ollama pull {name} (or hmem-night run --pull)",
                f"no model {name}", passing=False, status=404,
            )  # fmt: skip
        return found

    def pull(self, name: str) -> Iterator[tuple[str, int, int]]:
        """Fetch a model; (what is being done, bytes so far, bytes in all) as the server tells them."""
        try:
            for step in self._client.pull(name, stream=True):
                yield step.status or "", step.completed or 0, step.total or 0
        except FOREIGN as error:
            raise self._ours(error) from error

    def embed(self, name: str, texts: Sequence[str], attempts: int, read: Callable[[Any], Answer]) -> Answer:
        """`read` of the vectors of these texts; what it raises ValueError over counts as an answer that is none."""

        def once() -> Answer:
            return read(self._client.embed(model=name, input=texts, truncate=True).embeddings)

        return self._ask(once, attempts)

    def chat(self, name: str, prompt: str, options: dict[str, Any], schema: dict[str, Any] | None = None) -> str:
        """The model's answer to one message, as JSON of this schema if there is one.

        Thinking is switched off, since it would use up the tokens of the answer. Of an answer that was cut off the last line is missing, unless it
        is JSON: half a number would pass for a whole one.
        """
        answer = self._ask(
            self._client.chat,
            CHAT_ATTEMPTS,
            model=name,
            messages=[{"role": "user", "content": prompt}],
            think=False,
            options=options,
            format=schema,
        )
        said = answer.message.content or ""
        return said.rpartition("\n")[0] if answer.done_reason == "length" and schema is None else said

    def _ask(self, function: Callable[..., Answer], attempts: int, **arguments: object) -> Answer:
        def once() -> Answer:
            try:
                return function(**arguments)
            except FOREIGN as error:
                raise self._ours(error) from error

        return Retrying(
            stop=stop_after_attempt(attempts),
            wait=wait_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE),
            retry=retry_if_exception(lambda error: isinstance(error, OllamaError) and error.passing),
            reraise=True,
        )(once)

    def _ours(self, error: Exception) -> OllamaError:
        if isinstance(error, httpx.TimeoutException):
            reason = f"no answer within {self._seconds:g} s"
            what = f"gave {reason}. Check its load, or raise OLLAMA_TIMEOUT."
            return OllamaError(f"Ollama at {self.url} {what}", reason, passing=True)
        if isinstance(error, httpx.HTTPError | ConnectionError):
            reason = f"the connection failed: {error}"
            what = f"does not answer ({error}). Start it (ollama serve), or set OLLAMA_URL."
            return OllamaError(f"Ollama at {self.url} {what}", reason, passing=True)
        if isinstance(error, ollama.ResponseError):
            what = "refused" if 400 <= error.status_code < 500 else "failed"
            sentence = f"Ollama at {self.url} {what}: {error.error}. Its log says more; ollama list shows its models."
            passing = error.status_code >= 500
            return OllamaError(sentence, str(error.error), passing=passing, status=error.status_code)
        sentence = f"Ollama at {self.url} gave an invalid answer: {error}. Check OLLAMA_URL and EMBED_MODEL, and restart Ollama."
        return OllamaError(sentence, str(error), passing=True)
