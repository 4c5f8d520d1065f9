"""DAILY_LIMIT: what Claude's answers may cost on a day, in each chat, in one chat, and in all chats together.

1 USD, all 10 USD, 4242 5 USD, -100123 200k tokens, 77 none
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ALL = "all"
_LIMIT = re.compile(
    r"(?:(?P<chat>all|-?[0-9]{1,20})\s+)?"
    r"(?:(?P<none>none)|(?P<amount>[0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(?P<factor>[kM]?)\s*(?P<unit>USD|tokens))",
    re.IGNORECASE,
)
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
EXAMPLE = "1 USD, all 10 USD, 4242 200k tokens, 77 none"

Unit = Literal["USD", "tokens"]


@dataclass(frozen=True)
class Limit:
    """At most `amount` of a unit a day. `chat`: its id, "all" for all chats together, "" for each chat that has none of its own."""

    amount: float
    unit: Unit
    chat: str = ""

    @property
    def text(self) -> str:
        return amount_text(self.amount, self.unit)


@dataclass(frozen=True)
class DailyLimits:
    """What DAILY_LIMIT says. `free`: chats without a limit of their own."""

    limits: tuple[Limit, ...] = ()
    free: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> DailyLimits:
        """ValueError, with what is right, for what cannot be read."""
        limits, free = list[Limit](), set[str]()
        for part in filter(None, (one.strip() for one in text.split(","))):
            found = _LIMIT.fullmatch(part)
            if not found or (found["none"] and not (found["chat"] or "").lstrip("-").isdigit()):
                raise ValueError(f"{part!r} is not a limit; limits look like: {EXAMPLE}")
            chat = (found["chat"] or "").lower()
            if found["none"]:
                free.add(chat)
                continue
            amount = float(found["amount"]) * _FACTORS[found["factor"].lower()]
            unit: Unit = "USD" if found["unit"].upper() == "USD" else "tokens"
            if any((one.chat, one.unit) == (chat, unit) for one in limits):
                raise ValueError(f"{part!r} is the second limit of its kind; limits look like: {EXAMPLE}")
            limits.append(Limit(amount, unit, chat))
        if both := free & {one.chat for one in limits}:
            raise ValueError(f"chat {sorted(both)[0]} has a limit and none")
        return cls(tuple(limits), frozenset(free))

    def of(self, chat_id: str) -> list[Limit]:
        """Those of a chat: its own, or those of each chat; and those of all chats together."""
        own = [one for one in self.limits if one.chat == chat_id]
        if not own and chat_id not in self.free:
            own = [one for one in self.limits if one.chat == ""]
        return own + [one for one in self.limits if one.chat == ALL]


def amount_text(amount: float, unit: Unit) -> str:
    return f"{dollars(amount)} USD" if unit == "USD" else f"{amount:,.0f} tokens"


def dollars(amount: float) -> str:
    """With cents; of less than ten cents with hundredths of a cent."""
    return f"{amount:.4f}" if 0 < amount < 0.1 else f"{amount:.2f}"
