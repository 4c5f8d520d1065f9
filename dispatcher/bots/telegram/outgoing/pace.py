"""How often a partial answer may be shown, so that the answers themselves never wait for Telegram's limits.

Telegram allows about a message a second in a chat, twenty a minute in a group, and thirty a second in all; an edit counts as a message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

#: Shows a second in all chats together, and at once: the rest of what Telegram allows is for answers.
SHOWS_A_SECOND, SHOWS_AT_ONCE = 20.0, 5.0
#: Seconds between two shows in a chat; and on average in a group, which leaves 5 of its 20 messages a minute.
CHAT_SECONDS, GROUP_SECONDS = 1.25, 4.0
#: Shows that a chat may have in a short time after a while without any: what is being done, and the first words.
AT_ONCE = 3.0


@dataclass
class _Allowance:
    """Fills by `a_second` up to `most`; each show takes one. Times are seconds of a monotonic clock."""

    most: float
    a_second: float
    left: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        self.left = self.most

    def refill(self, now: float) -> float:
        self.left = min(self.most, self.left + max(0.0, now - self.at) * self.a_second)
        self.at = now
        return self.left


class Pace:
    """The allowances of all chats. Where many chats talk, each is shown less often."""

    def __init__(self) -> None:
        self._all = _Allowance(SHOWS_AT_ONCE, SHOWS_A_SECOND)
        self._chats: dict[int, _Allowance] = {}
        self._last: dict[int, float] = {}
        self._paused: dict[int, float] = {}

    def take(self, chat: int, now: float, talking: int, *, first_words: bool) -> bool:
        """Whether a chat may be shown something now, while so many chats have something to be shown; the first words of an answer need no pause."""
        own = self._chats.setdefault(chat, _Allowance(AT_ONCE, 1 / (CHAT_SECONDS if chat > 0 else GROUP_SECONDS)))
        enough = own.refill(now) >= (1 if first_words else 2) and self._all.refill(now) >= 1
        if not enough or now < self._paused.get(chat, 0.0):
            return False
        if not first_words and now - self._last.get(chat, -math.inf) < max(CHAT_SECONDS, talking / SHOWS_A_SECOND):
            return False
        own.left -= 1
        self._all.left -= 1
        self._last[chat] = now
        return True

    def spend(self, messages: int) -> None:
        """So many messages are sent that are more important; of many at once, what is partial waits for a second at most."""
        self._all.left = max(self._all.left - messages, -SHOWS_A_SECOND)

    def pause(self, chat: int, until: float) -> None:
        """Telegram wants nothing more for this chat until then."""
        self._paused[chat] = until

    def forget(self, now: float) -> None:
        """Drop the chats that have not been shown anything for a while: they have their full allowance anyway."""
        old = [
            chat
            for chat, last in self._last.items()
            if now - last > AT_ONCE * GROUP_SECONDS and now >= self._paused.get(chat, 0.0)
        ]
        for chat in old:
            for kept in (self._chats, self._last, self._paused):
                kept.pop(chat, None)
