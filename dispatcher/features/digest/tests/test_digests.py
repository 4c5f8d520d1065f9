"""The chats' digests: what they say, when, to whom, and that nothing forgotten is in them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import date

import pytest
from redis import Redis

from dispatcher.features.digest import digest
from dispatcher.features.digest.digest import digest_text, send_digests
from dispatcher.features.digest.tests.looking import DAY, HOUR, MINUTE, at, outbox
from dispatcher.health.findings import Setup
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import MemoryType
from shared.turns.records import Tombstone, Turn
from tests.support.world import World

CHAT, EIGHT, TODAY = "9912", at("2026-11-21T08:00"), date(2026, 11, 21)
CHATTER = [
    ("14:05", "user", "The plumber comes on Thursday at 10 and needs the key of the cellar."),
    ("14:06", "asst", "I noted that the plumber comes on Thursday at 10."),
    ("18:30", "user", "We decided to paint the kitchen green, the offer of Miller costs 1200 euros."),
    ("19:00", "user", "Our landlord is called Mr Bauer, and he wants the deposit of 900 euros in December."),
    ("20:15", "user", "The boiler was repaired today, the technician changed the valve."),
    ("21:00", "user", "My sister Ann moved to Lisbon and starts at the harbour office on Monday."),
    ("21:30", "user", "The school called: the parents' evening is on the 3rd of December at 19:00."),
    ("22:10", "user", "ok"),
]


@pytest.fixture
def day(light: World) -> Iterator[DayMemory]:
    settings = light.settings(chat_timezone="Europe/Berlin", report_at="08:00")
    with closing(DayMemory(settings, nullcontext)) as made:
        yield made


def say(day: DayMemory, *said: tuple[str, str, str], chat: str = CHAT, on: str = "2026-11-20") -> None:
    turns = [
        Turn(f"{on}-{chat}-{number}", role, chat, text, at(f"{on}T{clock}"), "Ada" if role == "user" else None)
        for number, (clock, role, text) in enumerate(said)
    ]
    day.turns.store(turns)


def text_of(day: DayMemory, now: float = EIGHT, chat: str = CHAT) -> str | None:
    return digest_text(day, None, chat, TODAY, now)


def lines_of(text: str | None, title: str) -> list[str]:
    """The lines under a title."""
    assert text is not None
    parts = {part.splitlines()[0]: part.splitlines()[1:] for part in text.split("\n\n")}
    return parts.get(title, [])


YESTERDAY = "Yesterday, Friday 20 November 2026:"


def test_yesterday_in_at_most_five_lines_with_their_times(day: DayMemory) -> None:
    say(day, *CHATTER)
    say(day, ("07:00", "user", "This morning the heating failed again and Mr Bauer must be called."), on="2026-11-21")
    say(day, ("23:59", "user", "The day before yesterday we bought a new ladder for the attic."), on="2026-11-19")
    say(day, ("15:00", "user", "The secret of another chat is a purple giraffe in the attic."), chat="77")
    text = text_of(day)
    lines = lines_of(text, YESTERDAY)
    assert len(lines) == 5
    said = {f"• {clock} {'Ada' if role == 'user' else 'assistant'}: {words}" for clock, role, words in CHATTER}
    assert set(lines) <= said, "word for word, with the time"
    assert lines == sorted(lines)
    assert text is not None
    assert text.endswith("Reply to correct a fact. /memory shows all of them, /digest off ends this message.")


def test_goals_that_are_due_and_what_is_remembered_since_yesterdays_digest(day: DayMemory) -> None:
    add = day.remembering.add
    old = EIGHT - 3 * DAY
    add(CHAT, MemoryType.GOAL, "call the bank", now=old, deadline=at("2026-11-21T17:00"))
    add(CHAT, MemoryType.GOAL, "return the library books", now=old, deadline=at("2026-11-20T23:59:59"))
    add(CHAT, MemoryType.GOAL, "write to grandmother", now=old, deadline=at("2026-11-24T12:00"))
    add(CHAT, MemoryType.GOAL, "renew the passport", now=old, deadline=at("2026-11-10T12:00"))
    add(CHAT, MemoryType.FACT, "Ann lives in Lisbon", now=EIGHT - 20 * HOUR)
    add(CHAT, MemoryType.PREFERENCE, "prefers short answers", now=EIGHT - HOUR)
    add(CHAT, MemoryType.FACT, "the dog is called Rex", now=EIGHT - 25 * HOUR)
    text = text_of(day)
    assert lines_of(text, "Due:") == [
        "• return the library books – Friday 20 November 2026",
        "• call the bank – Saturday 21 November 2026, 17:00 (today)",
    ]
    assert lines_of(text, "New in my memory:") == ["• Ann lives in Lisbon", "• prefers short answers"]
    assert lines_of(text, YESTERDAY) == []
    add("77", MemoryType.GOAL, "den Zahnarzt anrufen", now=old, deadline=at("2026-11-21T17:00"))
    assert (text_of(day, chat="77") or "").startswith("Fällig:"), "nothing was said: the goal's own language"


def test_nothing_forgotten_is_in_it(day: DayMemory) -> None:
    say(day, *CHATTER)
    assert "Lisbon" in (text_of(day) or "")
    day.forgotten.add(Tombstone("f1", CHAT, EIGHT, turn_ids=frozenset({f"2026-11-20-{CHAT}-5:user"})))
    assert "Lisbon" not in (text_of(day) or "")
    assert "Bauer" in (text_of(day) or "")
    day.forgotten.add(Tombstone("f2", CHAT, EIGHT))
    assert text_of(day) is None


def send(day: DayMemory, redis: Redis, now: float) -> int:
    return send_digests(day, nullcontext, lambda: False, Setup(day.settings, redis, lambda: now))


def test_each_chat_that_wants_one_gets_it_once_a_day(day: DayMemory, redis: Redis) -> None:
    say(day, *CHATTER)
    say(day, *CHATTER, chat="78")
    for chat in (CHAT, "77"):
        redis.hset("hcli:mem:digests", chat, "2026-11-20")
    assert send(day, redis, EIGHT - 1) == 0
    assert [send(day, redis, EIGHT + minute * MINUTE) for minute in range(3)] == [1, 0, 0]
    (message,) = outbox(redis)
    assert (message["chat_id"], message["id"], message["digest"]) == (CHAT, f"digest-2026-11-21-{CHAT}", True)
    assert set(redis.hgetall("hcli:mem:digests").values()) == {b"2026-11-21"}
    redis.hset(f"hcli:mem:chat:{CHAT}", "language", "de")
    redis.hset("hcli:mem:digests", CHAT, "2026-11-20")
    assert send(day, redis, EIGHT + HOUR) == 1
    assert "Gestern, Freitag, 20. November 2026:" in outbox(redis)[-1]["text"], "the language that the chat has chosen"
    assert send(day, redis, EIGHT + DAY) == 0, "nothing was said on that day"


def test_a_forgetting_meanwhile_makes_it_anew(day: DayMemory, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    say(day, *CHATTER)
    redis.hset("hcli:mem:digests", CHAT, "2026-11-20")
    real = digest.digest_text

    def slow(*arguments: object) -> str | None:
        text = real(*arguments)  # type: ignore[arg-type]
        day.forgotten.add(Tombstone("f1", CHAT, EIGHT, turn_ids=frozenset({f"2026-11-20-{CHAT}-5:user"})))
        return text

    monkeypatch.setattr(digest, "digest_text", slow)
    assert [send(day, redis, EIGHT + minute * MINUTE) for minute in range(2)] == [0, 1]
    assert "Lisbon" not in outbox(redis)[0]["text"]


@pytest.mark.slow
def test_forgetting_removes_an_unsent_digest_and_a_whole_chat_from_the_list(light: World) -> None:
    now = time.time()
    light.say("t1", "the zanzibar lighthouse sleeps at noon", timestamp=now - DAY)
    light.say("t2", "a tortoise lives in the attic", timestamp=now - DAY)
    light.night()
    for chat in (CHAT, "77"):
        text = "in other words: a beacon"
        for is_one in (True, False):
            said = text if is_one else f"a reminder for {chat}"
            message = {"id": chat, "chat_id": chat, "text": said, "created_at": now, "digest": is_one}
            light.redis.rpush("hcli:mem:outbox:main", json.dumps(message))
        waiting = {"chat": chat, "at": now, "text": text, "digest": True}
        light.redis.hset("hcli:mem:bot:waiting:main", f"outbox-{chat}", json.dumps(waiting))
        light.redis.hset("hcli:mem:digests", chat, "2026-11-20")
    light.redis.rpush("hcli:mem:outbox:main", b"not JSON")
    light.command("hmem", "forget", "--turn", "t1:user", "--yes")
    assert light.redis.lrem("hcli:mem:outbox:main", 1, "not JSON") == 1
    left = [(one["chat_id"], one["digest"]) for one in outbox(light.redis)]
    assert left == [(CHAT, False), ("77", True), ("77", False)]
    assert light.redis.hkeys("hcli:mem:bot:waiting:main") == [b"outbox-77"]
    assert light.redis.hlen("hcli:mem:digests") == 2, "only a part of the chat was forgotten"
    light.command("hmem", "forget", f"--chat={CHAT}", "--yes")
    assert light.redis.hkeys("hcli:mem:digests") == [b"77"]
