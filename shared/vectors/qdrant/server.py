"""The way to a Qdrant server: its client, what that raises as one kind of error, and the patience of the night.

Traps of qdrant-client 1.20: it warns of a key that goes over plain http, so the key is given as a header; it asks the server's version in a
thread that warns, so that is off; it keeps no connection to this host, so it is told how; an answer that is not JSON is a ValueError, one
without a result an AssertionError. The import takes over a second, so it happens here and late. A client closes itself with its last user, so
no thread that still asks loses its connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.vectors.on_server import first_line
from shared.vectors.qdrant.settings import QdrantSettings

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

#: How often the night asks, and the first of the pauses between, in seconds, each twice the one before.
ATTEMPTS, PAUSE_SECONDS = 4, 1.0
#: Seconds that an idle connection is kept: fewer than a server keeps it, or a request might meet its end.
IDLE_SECONDS = 2.0


class NoAnswer(Exception):
    """Qdrant does not answer, or refuses with an HTTP `status`. `passing`: the same request may be answered a moment later."""

    def __init__(self, text: str, *, status: int | None = None, passing: bool = False) -> None:
        super().__init__(text)
        self.status, self.passing = status, passing


@contextmanager
def answered() -> Iterator[None]:
    """Whatever the client raises, as NoAnswer."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:
        status = error.status_code or 0
        raise NoAnswer(_refusal(status, error.content), status=status, passing=status >= 500) from error
    except (ApiException, QdrantException) as error:
        # Not reached, not in time, too often, or an answer of another shape.
        raise NoAnswer(first_line(error) or type(error).__name__, passing=True) from error
    except (AssertionError, ValueError) as error:
        raise NoAnswer("the server at this address is not Qdrant") from error


def _refusal(status: int, content: bytes) -> str:
    if status in (401, 403):
        return f"{status}, it refuses the key: set QDRANT_API_KEY"
    try:
        return f"{status}, {orjson.loads(content)['status']['error']}"[:200]
    except (ValueError, KeyError, TypeError):
        return f"{status}, and not in Qdrant's words"


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while what failed may pass. `ask` may be done twice: its answer may be lost after it was obeyed."""

    def once() -> T:
        with answered():
            return ask()

    passing = retry_if_exception(lambda error: isinstance(error, NoAnswer) and error.passing)
    wait = wait_exponential(multiplier=PAUSE_SECONDS)
    return Retrying(stop=stop_after_attempt(ATTEMPTS), wait=wait, retry=passing, reraise=True)(once)


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that httpx trusts: read once, they take 50 ms."""
    import httpx

    return httpx.create_ssl_context()


def client_of(settings: Settings, seconds: float) -> Any:
    """A client of the server that the settings name, which waits no longer than this for each part of an answer. Nothing is asked yet."""
    chosen = settings.of(QdrantSettings)
    if chosen.qdrant_url is None:
        raise SettingsError("the qdrant index needs a server: set QDRANT_URL, such as http://127.0.0.1:6333")
    import httpx
    from qdrant_client import QdrantClient

    key = chosen.qdrant_api_key.get_secret_value() if chosen.qdrant_api_key else ""
    if not (key.isascii() and key.isprintable()):  # the error of the library would show it
        raise SettingsError(
            "QDRANT_API_KEY contains characters that are not allowed in a key (a line break?); set it again"
        )
    with answered():
        return QdrantClient(
            url=chosen.qdrant_url,
            headers={"api-key": key} if key else None,
            timeout=math.ceil(seconds),
            check_compatibility=False,
            limits=httpx.Limits(keepalive_expiry=IDLE_SECONDS),
            verify=_trusted(),
        )
