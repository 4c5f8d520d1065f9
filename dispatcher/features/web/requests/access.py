"""Who may see the page: tokens that were printed at the start, and the sessions that they open, in memory alone: a restart ends those."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cachetools import TTLCache

#: Bytes of randomness in a token and in a session's name (OWASP asks for at least 8 in a session's): nobody guesses them.
TOKEN_BYTES = 32
#: Seconds after its last use that a session ends, and how many a link may have: of more, the one that was used longest ago ends.
SESSION_SECONDS, SESSIONS = 12 * 3600.0, 100


@dataclass(frozen=True)
class Grant:
    """What somebody may do: `chats` that are shown (None: all, and everything about the host), and whether anything may be changed."""

    chats: frozenset[str] | None = None
    read_only: bool = False

    @property
    def whole_host(self) -> bool:
        return self.chats is None

    def sees(self, chat_id: str) -> bool:
        return self.chats is None or chat_id in self.chats


@dataclass
class Session:
    """`form_token` is in every form: another site cannot know it (OWASP's synchroniser token pattern)."""

    grant: Grant
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES))
    said: str = ""  # what the last form did, for the page that comes next; never in an address


class Access:
    """For the server's thread alone. `now` is the clock in seconds, for tests."""

    def __init__(self, grants: list[Grant], now: Callable[[], float] = time.monotonic) -> None:
        self.tokens = [(secrets.token_urlsafe(TOKEN_BYTES), grant) for grant in grants]
        # each link has its own: those of one do not end another's
        self._sessions = {grant: TTLCache[str, Session](SESSIONS, SESSION_SECONDS, now) for grant in grants}

    def enter(self, token: str) -> str | None:
        """The name of a new session for a token; None for a wrong one."""
        grant = next((one for own, one in self.tokens if hmac.compare_digest(own.encode(), token.encode())), None)
        if grant is None:
            return None
        name = secrets.token_urlsafe(TOKEN_BYTES)
        self._sessions[grant][name] = Session(grant)
        return name

    def session(self, name: str) -> Session | None:
        session = next((one[name] for one in self._sessions.values() if name in one), None)
        if session is not None:
            self._sessions[session.grant][name] = session  # its time begins anew
        return session

    def leave(self, name: str) -> None:
        for sessions in self._sessions.values():
            sessions.pop(name, None)
