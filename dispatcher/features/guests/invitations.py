"""Invitations: a code that works once and for a while. Redis has only its hash.

owner: /invite ─ code (144 random bits) ─ SHA-256 ─ hcli:mem:invite:<hash>, which expires
stranger: /start CODE or CODE ─ one script: too many wrong tries │ the invitation goes and the guest comes │ one more wrong try
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Awaitable
from typing import cast

from redis.asyncio import Redis

from dispatcher.bots.telegram.state import WAITING, InRedis, Waiting
from dispatcher.features.guests import keys as own
from dispatcher.features.guests.records import Guest, guests_of
from dispatcher.queue.chats import ACCESS, ChatAccess
from dispatcher.queue.rights import Rights
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.records import RecordRefused
from shared.turns.signed import sign_record, signed_record
from shared.turns.speakers import label
from shared.wire import keys

log = Logger()

#: Random bytes of a code; as text it has a third more characters, all of which a link may have.
CODE_BYTES = 18
#: What a code looks like, as the text of a message.
_CODE = re.compile(r"[A-Za-z0-9_-]{24}\Z")
#: What may follow /start at all.
_PAYLOAD = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
#: Wrong codes of a stranger in an hour; after those the bot is silent, whatever the code.
MOST_TRIES = 5
#: How long a code works. Seconds.
DEFAULT_SECONDS, SHORTEST_SECONDS, LONGEST_SECONDS = 86_400, 60, 30 * 86_400

WELCOME = later("Welcome! You are a guest here now: write to me and I answer. /help shows what I can do.")
#: Of a wrong code, one that has expired and one that was used: nobody learns which.
NOT_VALID = later("I cannot use this code: each works once and for a limited time. Please ask for a new one.")
JOINED = later(
    "{name} (user id {chat}) has used an invitation of yours and is a guest now. /guests shows all guests and removes them."
)


class Invitations(InRedis):
    """One per bot."""

    def __init__(self, redis: Redis, secret: str, rights: Rights) -> None:
        super().__init__(redis, secret)
        self._rights = rights

    async def make(self, by: str, seconds: int) -> str:
        """A new code of this owner."""
        code = secrets.token_urlsafe(CODE_BYTES)
        key = own.invite(hashed(code))
        await self._redis.set(key, sign_record(self._secret, key, {"by": by, "at": time.time()}), ex=seconds)
        return code

    async def join(self, update: str, chat: int, name: str, code: str) -> int:
        """A stranger sends a code: 1 they are a guest now, 0 they are told that it is not valid, -1 they get no reply. May be repeated."""
        key, now = own.invite(hashed(code)), time.time()
        raw = cast(bytes | None, await self._redis.get(key))
        by = self._inviter(key, raw)
        by = by if self._rights.counts_all(by, False, by) else ""  # who is no owner any more invites nobody
        guest = Guest(str(chat), name, now, by)
        told = tr(JOINED).format(name=label("user", name), chat=chat)

        def waiting(field: str, to: str, text: str) -> bytes:
            return Waiting(to, now, text=text).to_json(self._secret, field)

        of_chat = [own.tries(str(chat)), keys.chat_settings(str(chat))]
        arguments = [
            update,
            str(chat),
            raw if raw and by else b"",
            guest.signed(self._secret),
            waiting(update, str(chat), tr(WELCOME)),
            waiting(update, str(chat), tr(NOT_VALID)),
            f"joined-{update}",
            waiting(f"joined-{update}", by or str(chat), told),
            keys.BOT_SEEN_TTL_SECONDS,
            MOST_TRIES,
            own.TRIES_TTL_SECONDS,
            ACCESS,
            ChatAccess.LIMITED,
        ]
        names = [WAITING, keys.bot_seen(update), key, own.GUESTS, *of_chat]
        return int(await self._run("join", names, arguments, "features/guests"))

    async def set(self, guest: Guest) -> None:
        """Allow a chat without a code, or remove it. A crash in between leaves it with less than it may have; repeated, all is written."""
        access = ChatAccess.LIMITED if guest.removed is None else ChatAccess.CLOSED
        await self._redis.hset(keys.chat_settings(guest.chat), ACCESS, access)
        await self._redis.hset(own.GUESTS, guest.chat, cast(str, guest.signed(self._secret)))

    async def guests(self) -> list[Guest]:
        """The newest first."""
        raw = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(own.GUESTS))
        return guests_of(raw, self._secret)

    def _inviter(self, key: str, raw: bytes | None) -> str:
        try:
            return str(signed_record(self._secret, key, raw)["by"]) if raw else ""
        except RecordRefused as error:
            log.warning("an invitation is refused", error=str(error))
            return ""


def code_in(command: str, text: str) -> str | None:
    """The code that a stranger's message has: what follows /start, or a message that is nothing else. None for any other message."""
    if command == "start":
        return text if _PAYLOAD.match(text) else None
    return text if not command and _CODE.match(text) else None


def hashed(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


def seconds_of(text: str) -> int | None:
    """Of `7d`, `12h`, `30m`; the default for nothing, None for anything else."""
    if not text:
        return DEFAULT_SECONDS
    found = re.fullmatch(r"([0-9]{1,5})\s*([mhd])", text.lower())
    seconds = int(found[1]) * {"m": 60, "h": 3600, "d": 86_400}[found[2]] if found else 0
    return seconds if SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS else None
