"""Sessions that the password has opened: a restart of the page keeps them, another password ends them all.

Their file has no name of a session, only what a key that comes from the password's hash makes of it: whoever may write the file (the dispatcher's
user) can end sessions, but make none.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dispatcher.features.web.requests.access import TOKEN_BYTES, Grant, Session
from shared.system.files import write_atomic

#: Seconds after which a session ends, without use and at most; how many there may be: of more, the one that was used longest ago ends.
UNUSED_SECONDS, LONGEST_SECONDS, KEPT_SESSIONS = 7 * 86_400.0, 30 * 86_400.0, 100
#: Seconds between two notes of a use in the file.
NOTED_SECONDS = 600.0


class KeptSessions:
    """For the server's thread alone. A name is `<when it began, in hexadecimal>.<random>`; `now` is the clock in seconds, for tests."""

    def __init__(self, file: Path, password_hash: str, grant: Grant, now: Callable[[], float] = time.time) -> None:
        self._key = hashlib.sha256(b"sessions of the page: " + password_hash.encode()).digest()
        self._file, self._grant, self._now = file, grant, now
        self._open: dict[str, Session] = {}
        #: Mark of a session → when its use was noted last.
        self._used = dict[str, float]()
        with suppress(
            OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError
        ):  # without the file, people enter again
            found = json.loads(file.read_text(encoding="utf-8"))
            self._used = {str(mark): float(used) for mark, used in found.items()}

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
        if now - used > UNUSED_SECONDS or now - int(name.partition(".")[0], 16) > LONGEST_SECONDS:
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
        newest = sorted(self._used, key=self._used.__getitem__)[-KEPT_SESSIONS:]
        self._used = {one: self._used[one] for one in newest if now - self._used[one] <= UNUSED_SECONDS}
        self._open = {one: session for one, session in self._open.items() if one in self._used}
        self._write()

    def _write(self) -> bool:
        try:
            write_atomic(self._file, json.dumps(self._used).encode())
        except OSError:  # a full disk keeps nobody out
            return False
        return True
