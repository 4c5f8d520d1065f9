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

#: Characters that a new password has to have.
LEAST_CHARACTERS = 12
#: Seconds before a try: after one wrong try of the same address, and at most. An address is forgotten SOURCE_SECONDS after its last try.
FIRST_DELAY, LONGEST_DELAY, SOURCE_SECONDS = 0.5, 8.0, 3600.0
#: Addresses that are remembered, tries of one of them that may wait, and tries of all that are checked at once (each takes 64 MB).
SOURCES, WAITING, AT_ONCE = 10_000, 4, 2


class TooManyTries(Exception):
    """So many tries of this address wait already that this one was not looked at."""


def hashed(password: str) -> str:
    """Its Argon2id hash (RFC 9106). InvalidInput if it is too short."""
    if len(password) < LEAST_CHARACTERS:
        raise InvalidInput(f"A password needs at least {LEAST_CHARACTERS} characters. Choose a longer one.")
    return PasswordHasher().hash(_bytes(password))


def is_right(hash_of_it: str, password: str) -> bool:
    """Takes the same time whatever is wrong with it."""
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
    """Each address waits for its own wrong tries, one try after the other, and for nobody else's. `pause` is for tests."""

    def __init__(self, hash_of_it: str, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._hash, self._pause = hash_of_it, pause
        self._sources: TTLCache[str, _Source] = TTLCache(SOURCES, SOURCE_SECONDS)
        self._checked = asyncio.Semaphore(AT_ONCE)

    async def is_right(self, password: str, source: str) -> bool:
        """TooManyTries if this address has too many tries waiting."""
        one = self._sources[source] = self._sources.get(source) or _Source()
        if one.waiting >= WAITING:
            raise TooManyTries
        one.waiting += 1
        try:
            async with one.turn:
                if one.wrong:
                    await self._pause(min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(one.wrong - 1, 10)))
                async with self._checked:
                    right = await run_in_threadpool(is_right, self._hash, password)
                one.wrong = 0 if right else one.wrong + 1
                return right
        finally:
            one.waiting -= 1


def source_of(request: Request, *, behind_proxy: bool) -> str:
    """Who tries: the address that asks, or that our proxy says it was asked from (the last one; those before it anybody may write)."""
    written = request.client.host if request.client else ""
    if behind_proxy:
        written = request.headers.get("x-forwarded-for", written).rpartition(",")[2].strip()
    try:
        address = ip_address(written)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):  # a household has 2^64 of them
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
    return str(address)
