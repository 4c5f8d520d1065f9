"""Who may see the page: tokens that were printed at the start, and the sessions that they open. Kept in memory alone: a restart ends them all."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import deque
from dataclasses import dataclass, field

#: Bytes of randomness in a token and in a session's name (OWASP asks for at least 8 in a session's).
TOKEN_BYTES = 32
#: Seconds after its last use that a session ends, and how many are kept of each link: of more, the one that was used longest ago ends.
SESSION_SECONDS, SESSIONS = 12 * 3600.0, 100
#: Wrong tokens of one address within WRONG_SECONDS, after which it has to wait; and how many addresses are remembered.
WRONG_TOKENS, WRONG_SECONDS, ADDRESSES = 10, 300.0, 1000


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
    used: float = 0.0
    said: str = ""  # what the last form did, for the page that comes next; never in an address


class Access:
    """Thread-safe. `now` is the clock in seconds, for tests."""

    def __init__(self, grants: list[Grant]) -> None:
        self.tokens = [(secrets.token_urlsafe(TOKEN_BYTES), grant) for grant in grants]
        self._sessions: dict[str, Session] = {}
        self._wrong: dict[str, deque[float]] = {}
        self._lock = threading.Lock()
        self.now = time.monotonic

    def enter(self, token: str, address: str) -> str | None:
        """The name of a new session for a token; None for a wrong one. TooManyTries if this address has tried too often."""
        with self._lock:
            self._refuse_if_often(address)
            grant = next((one for own, one in self.tokens if hmac.compare_digest(own.encode(), token.encode())), None)
            if grant is None:
                self._wrong.setdefault(address, deque()).append(self.now())
                return None
            name = secrets.token_urlsafe(TOKEN_BYTES)
            self._sessions[name] = Session(grant, used=self.now())
            same = [one for one, session in self._sessions.items() if session.grant == grant]
            if len(same) > SESSIONS:  # those of another link are not ended by this one
                del self._sessions[min(same, key=lambda one: self._sessions[one].used)]
            return name

    def _refuse_if_often(self, address: str) -> None:
        tries = self._wrong.get(address, deque())
        while tries and tries[0] < self.now() - WRONG_SECONDS:
            tries.popleft()
        if len(tries) >= WRONG_TOKENS:
            raise TooManyTries(max(1, round(tries[0] + WRONG_SECONDS - self.now())))
        if not tries:
            self._wrong.pop(address, None)
        while len(self._wrong) > ADDRESSES:
            del self._wrong[next(iter(self._wrong))]

    def session(self, name: str) -> Session | None:
        with self._lock:
            session = self._sessions.get(name)
            if session is None or session.used < self.now() - SESSION_SECONDS:
                self._sessions.pop(name, None)
                return None
            session.used = self.now()
            return session

    def leave(self, name: str) -> None:
        with self._lock:
            self._sessions.pop(name, None)


class TooManyTries(Exception):
    """`seconds` until this address may try again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong tokens; try again in {seconds} seconds")
        self.seconds = seconds
