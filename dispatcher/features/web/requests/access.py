"""Who may see the page: tokens that were printed at the start, and the password; and the sessions that each of them opens."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from dispatcher.features.web.requests.password import PasswordTries
from shared.system.files import write_atomic

#: Bytes of randomness in a token and in a session's name (OWASP asks for at least 8 in a session's): nobody guesses them.
TOKEN_BYTES = 32
#: Seconds after its last use that a session of a link ends, or of the password; and that any ends at the latest.
LINK_UNUSED_SECONDS, UNUSED_SECONDS, LONGEST_SECONDS = 12 * 3600.0, 7 * 86_400.0, 30 * 86_400.0
#: How many sessions a link or the password may have: of more, the one that was used longest ago ends. Seconds between two notes of a use.
SESSIONS, NOTED_SECONDS = 100, 600.0
_USED = TypeAdapter(dict[str, FiniteFloat])


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


class PageSessions:
    """Those that one secret opens: a link's token, or the password's hash. For the server's thread alone. A name is
    `<when it began, in hexadecimal>.<random>`; `now` is the clock in seconds, for tests.

    With a file they outlive a restart of the page, and another password ends them all. The file has no name of a session, only what a key that comes
    from the secret makes of it: whoever may write the file (the dispatcher's user) can end sessions, but make none.
    """

    def __init__(
        self, secret: str, grant: Grant, unused: float, file: Path | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._key = hashlib.sha256(b"sessions of the page: " + secret.encode()).digest()
        self._grant, self._unused, self._file, self._now = grant, unused, file, now
        self._open: dict[str, Session] = {}
        #: Mark of a session → when its use was noted last.
        self._used = dict[str, float]()
        with suppress(OSError, ValidationError):  # without the file, people enter again
            self._used = _USED.validate_json(file.read_bytes()) if file else {}

    def begin(self) -> str:
        """The name of a new session."""
        name = f"{int(self._now()):x}.{secrets.token_urlsafe(TOKEN_BYTES)}"
        self._note(self._made("name", name))
        return name

    def session(self, name: str) -> Session | None:
        mark, now = self._made("name", name), self._now()
        used = self._used.get(mark)
        if used is None:
            return None
        if now - used > self._unused or now - int(name.partition(".")[0], 16) > LONGEST_SECONDS:
            self.leave(name)
            return None
        if abs(now - used) > NOTED_SECONDS:
            self._note(mark)
        return self._open.setdefault(mark, Session(self._grant, self._made("form", name)))

    def leave(self, name: str) -> bool:
        """False if the file still has it, so that a restart would open it again."""
        mark = self._made("name", name)
        if self._used.pop(mark, None) is not None:
            self._open.pop(mark, None)
            return self._write()
        return True

    def _made(self, what: str, name: str) -> str:
        return hmac.new(self._key, f"{what} {name}".encode("utf-8", "replace"), "sha256").hexdigest()

    def _note(self, mark: str) -> None:
        now = self._now()
        self._used[mark] = now
        newest = sorted(self._used, key=self._used.__getitem__)[-SESSIONS:]
        self._used = {one: self._used[one] for one in newest if now - self._used[one] <= self._unused}
        self._open = {one: session for one, session in self._open.items() if one in self._used}
        self._write()

    def _write(self) -> bool:
        with suppress(OSError):  # a full disk keeps nobody out
            if self._file:
                write_atomic(self._file, orjson.dumps(self._used))
            return True
        return False


class Access:
    """For the server's thread alone. The password, if there is one (`hash_of_it`), opens what the first link opens, and `file` keeps its sessions;
    `now` is the clock in seconds, for tests."""

    def __init__(
        self,
        grants: Sequence[Grant],
        hash_of_it: str = "",
        file: Path | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.tokens = [(secrets.token_urlsafe(TOKEN_BYTES), grant) for grant in grants]
        self._of_links = [PageSessions(token, grant, LINK_UNUSED_SECONDS, now=now) for token, grant in self.tokens]
        self._of_password = PageSessions(hash_of_it, grants[0], UNUSED_SECONDS, file, now) if hash_of_it else None
        self._all = [*filter(None, (*self._of_links, self._of_password))]
        self._tries = PasswordTries(hash_of_it)

    def enter(self, token: str) -> str | None:
        """The name of a new session for a token; None for a wrong one."""
        for (own, _), sessions in zip(self.tokens, self._of_links, strict=True):
            if hmac.compare_digest(own.encode(), token.encode()):
                return sessions.begin()
        return None

    @property
    def has_password(self) -> bool:
        return self._of_password is not None

    async def enter_by_password(self, password: str, source: str) -> str | None:
        """The same for the password, tried from that address. TooManyTries if too many wait."""
        if self._of_password and await self._tries.is_right(password, source):
            return self._of_password.begin()
        return None

    def session(self, name: str) -> Session | None:
        return next(filter(None, (one.session(name) for one in self._all)), None)

    def leave(self, name: str) -> bool:
        """False if a restart of the page would open it again."""
        return all(one.leave(name) for one in self._all)
