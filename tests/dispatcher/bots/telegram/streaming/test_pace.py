"""How often partial answers are shown, over simulated minutes, against Telegram's limits as the stand-in enforces them."""

from __future__ import annotations

from collections import Counter

from dispatcher.bots.telegram.partials import Pace
from tests.servers.telegram_messages import FloodLimits


def run(chats: list[int], seconds: float, step: float = 0.05) -> tuple[Counter[int], FloodLimits]:
    """Every chat has news at every step; each fifteen seconds an answer ends (two messages) and another begins."""
    pace, limits, shown = Pace(), FloodLimits(), Counter[int]()
    words = dict.fromkeys(chats, 0.0)  # when the answer of a chat began
    last = dict.fromkeys(chats, -1.0)
    now = 1000.0
    while now < 1000.0 + seconds:
        for chat in sorted(chats, key=lambda one: last[one]):
            if now - words[chat] > 15 + chat * 0.07 and words[chat]:
                words[chat] = 0.0
                pace.spend(2, now)
                limits.take(chat, now)
                limits.take(chat, now)
            elif pace.take(chat, now, len(chats), first_words=not words[chat]):
                words[chat], last[chat] = words[chat] or now, now
                shown[chat] += 1
                limits.take(chat, now)  # raises beyond them
        now += step
    return shown, limits


def test_one_private_chat_is_shown_nearly_every_second() -> None:
    shown, limits = run([1], 60)
    assert 40 <= shown[1] <= 60
    assert not limits.refused


def test_a_group_is_shown_fifteen_times_a_minute_at_most() -> None:
    pace = Pace()
    times = [at / 10 for at in range(600) if pace.take(-5, at / 10, 1, first_words=at % 50 == 0)]
    assert 15 <= len(times) <= 18
    assert len([at for at in times if at < 3]) >= 2, "a short answer grows, too"


def test_where_many_chats_talk_each_is_shown_less_often_and_all_are_shown() -> None:
    few, _ = run(list(range(1, 6)), 30)
    many, limits = run(list(range(1, 101)), 30)
    assert not limits.refused
    assert set(many) == set(range(1, 101))
    assert max(many.values()) * 3 < min(few.values())
    assert sum(many.values()) <= 30 * 20 + 5
