"""The page's own password: its hash, and how often it may be tried."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from cachetools import TTLCache
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from shared.errors import InvalidInput

#: Characters that a new password has to have, and that any may have: to compose the accents of a long one takes the square of its length.
LEAST_CHARACTERS, MOST_CHARACTERS = 12, 1000
#: Seconds before a try: after one wrong try of the same address, and at most. An address is forgotten SOURCE_SECONDS after its last try.
FIRST_DELAY, LONGEST_DELAY, SOURCE_SECONDS = 0.5, 8.0, 3600.0
#: Addresses that are remembered, and tries of one of them that may wait.
SOURCES, WAITING = 10_000, 4
#: Tries of all addresses that are checked at once (each takes 64 MB), and that may wait for it.
AT_ONCE, ALL_WAITING = 2, 20


class TooManyTries(Exception):
    """So many tries of this address, or of all, wait already that this one was not looked at."""


def hashed(password: str) -> str:
    """Its Argon2id hash (RFC 9106). InvalidInput if it is too short or too long."""
    if len(password) < LEAST_CHARACTERS:
        raise InvalidInput(f"A password needs at least {LEAST_CHARACTERS} characters. Choose a longer one.")
    if len(password) > MOST_CHARACTERS:
        raise InvalidInput(f"A password has at most {MOST_CHARACTERS} characters. Choose a shorter one.")
    return PasswordHasher().hash(_bytes(password))


def is_right(hash_of_it: str, password: str) -> bool:
    """Takes the same time whatever is wrong with it, except with one that is too long for any."""
    if len(password) > MOST_CHARACTERS:
        return False
    try:
        return PasswordHasher().verify(hash_of_it, _bytes(password))
    except VerificationError:
        return False


def _bytes(password: str) -> bytes:
    """The same for the same letters, however a keyboard composes them."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "replace")


@dataclass
class _Source:
    wrong: int = 0
    waiting: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class PasswordTries:
    """Each address waits for its own wrong tries, one try after the other; all share what is checked at once. `pause` is for tests."""

    def __init__(self, hash_of_it: str, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._hash, self._pause = hash_of_it, pause
        self._sources: TTLCache[str, _Source] = TTLCache(SOURCES, SOURCE_SECONDS)
        self._checked, self._asking = asyncio.Semaphore(AT_ONCE), 0

    async def is_right(self, password: str, source: str) -> bool:
        """TooManyTries if this address, or all of them together, have too many tries waiting."""
        one = self._sources[source] = self._sources.get(source) or _Source()
        if one.waiting >= WAITING:
            raise TooManyTries
        one.waiting += 1
        try:
            async with one.turn:
                if one.wrong:
                    await self._pause(min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(one.wrong - 1, 10)))
                right = await self._check(password)
                one.wrong = 0 if right else one.wrong + 1
                return right
        finally:
            one.waiting -= 1

    async def _check(self, password: str) -> bool:
        if self._asking >= AT_ONCE + ALL_WAITING:
            raise TooManyTries
        self._asking += 1
        try:
            async with self._checked:
                return await run_in_threadpool(is_right, self._hash, password)
        finally:
            self._asking -= 1


def source_of(request: Request, *, behind_proxy: bool) -> str:
    """Who tries: the address that asks, or that our proxy says it was asked from (the last one; those before it anybody may write)."""
    written = request.client.host if request.client else ""
    if behind_proxy:
        # a proxy may append a line of its own below one that was sent
        lines = request.headers.getlist("x-forwarded-for") or [written]
        written = lines[-1].rpartition(",")[2].strip()
    try:
        address = ip_address(written)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):  # a household may have a whole /48 of them
        return str(address.ipv4_mapped or ip_network((address, 48), strict=False))
    return str(address)
