"""Invitations: a stranger becomes a guest by a code, once; guests are listed and removed; groups are allowed from the group."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

from dispatcher.bots.telegram.core import Presses
from dispatcher.features.guests import keys as own
from dispatcher.features.guests.invitations import MOST_TRIES, NOT_VALID, WELCOME, hashed, seconds_of
from dispatcher.queue.chats import ACCESS, ChatAccess
from shared.turns.signed import Button
from shared.wire import keys
from tests.dispatcher.bots.telegram.conftest import one_talk
from tests.support.day.forgetting_world import forget_in_redis
from tests.support.day.telegram_bot import (
    CHAT,
    GROUP,
    Stage,
    keys_of,
    labels,
    last,
    press,
    say,
    sees,
    toasts,
    wait_until,
)
from tests.support.world import SECRET

MEMBER = {"id": 8, "is_bot": False, "first_name": "Bea"}
OWNER = {"id": CHAT, "is_bot": False, "first_name": "Ada"}
ELSEWHERE = -1009
REFUSED = "I only answer in chats that my owner has allowed"


stage = one_talk(OWNERS=str(CHAT))


@pytest.fixture
def stranger(stage: Stage) -> int:
    return 50_000 + stage.new_chat()


def invite(stage: Stage, text: str = "/invite") -> str:
    """The code that an owner gets."""
    told = say(stage, CHAT, text, "becomes a guest").text
    (code,) = re.findall(r"^([A-Za-z0-9_-]{24})$", told, re.MULTILINE)
    assert f"https://t.me/memory_bot?start={code}" in told
    return str(code)


def silent(stage: Stage, chat: int, text: str, user: dict[str, Any] | None = None) -> None:
    """Say it; nothing is answered."""
    before = len(stage.api.texts(chat))
    stage.confirmed(stage.api.say(chat, text, user or {"id": chat, "is_bot": False, "first_name": "Cy"}))
    stage.quiet()
    assert len(stage.api.texts(chat)) == before


def test_a_stranger_becomes_a_guest_by_the_link_and_talks(stage: Stage, stranger: int) -> None:
    assert REFUSED in say(stage, stranger, "hello", REFUSED).text
    code = invite(stage)
    everything = b"".join(stage.redis.dump(key) or b"" for key in stage.redis.scan_iter())
    assert code.encode() not in everything, "Redis has only the hash"
    assert 86_300 < int(stage.redis.ttl(own.invite(sha256(code.encode()).hexdigest()))) <= 86_400
    assert last(stage, stranger).text != WELCOME
    say(stage, stranger, f"/start {code}", WELCOME)
    assert f"(user id {stranger}) has used an invitation of yours" in sees(stage, CHAT, "has used an invitation").text
    say(stage, stranger, "what can I do with a boat?", "All right.")
    say(stage, stranger, "/memory add I own a boat", "number 1")
    assert "/invite" not in say(stage, stranger, "/help", "/memory").text
    assert "/invite" in say(stage, CHAT, "/help", "For owners").text
    say(stage, stranger, "/invite", "Only an owner may do this")
    say(stage, stranger, "/guests", "Only an owner may do this")
    log = "".join(path.read_text() for path in stage.world.root.glob("*.log"))
    assert code not in log


def test_the_code_alone_is_enough_and_works_once(stage: Stage, stranger: int) -> None:
    code = invite(stage, "/invite 7d")
    assert int(stage.redis.ttl(own.invite(hashed(code)))) > 6 * 86_400
    say(stage, stranger, code, WELCOME)
    other = stranger + 1_000
    say(stage, other, code, NOT_VALID)
    say(stage, other, f"/start {code}", NOT_VALID)
    assert not stage.redis.hexists(own.GUESTS, str(other))


def test_wrong_expired_and_used_codes_are_answered_alike_and_then_not_at_all(stage: Stage, stranger: int) -> None:
    expired = invite(stage, "/invite 1m")
    stage.redis.delete(own.invite(hashed(expired)))
    good = invite(stage)
    for text in (f"/start {expired}", "/start x", "A" * 24, "/start wrong-code", expired):
        assert say(stage, stranger, text, NOT_VALID).text == NOT_VALID
    assert stage.redis.get(own.tries(str(stranger))) == str(MOST_TRIES).encode()
    silent(stage, stranger, f"/start {good}")
    silent(stage, stranger, good)
    assert 0 < int(stage.redis.ttl(own.tries(str(stranger)))) <= 3_600
    stage.redis.delete(own.tries(str(stranger)))  # an hour later
    say(stage, stranger, good, WELCOME)


def test_of_many_who_send_a_code_at_once_one_becomes_a_guest(stage: Stage) -> None:
    code, chats = invite(stage), [60_000 + number for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda chat: stage.api.say(chat, code, {"id": chat, "is_bot": False, "first_name": "X"}), chats))
    wait_until(lambda: all(stage.api.texts(chat) for chat in chats), lambda: "twelve answers")
    assert sorted(stage.api.texts(chat)[-1] for chat in chats) == sorted([WELCOME, *[NOT_VALID] * 11])


def test_a_removed_guest_is_refused_at_once_and_their_memory_stays(stage: Stage, stranger: int) -> None:
    guest = {"id": stranger, "is_bot": False, "first_name": "Gil"}
    stage.api.say(stranger, invite(stage), guest)
    sees(stage, stranger, WELCOME)
    say(stage, stranger, "/memory add The cat is grey", "number 1", user=guest)
    listed = say(stage, CHAT, "/guests", f"Gil (user id {stranger}), since")
    assert f"invited by {CHAT}" in listed.text
    assert "Remove Gil" in labels(listed)
    stage.api.press(CHAT, "Remove Gil", MEMBER)
    wait_until(lambda: "somebody else" in "".join(toasts(stage)[-1:]), lambda: str(toasts(stage)))
    say(stage, stranger, "/memory", "The cat is grey", user=guest)
    removed = press(stage, CHAT, "Remove Gil", "Gil is no longer a guest")
    assert f"hmem forget --chat={stranger}" in removed.text
    assert f"(user id {stranger})" not in removed.text
    stage.redis.delete(keys.bot_told(str(stranger)))
    assert REFUSED in say(stage, stranger, "are you there?", REFUSED, user=guest).text
    assert "The cat is grey" in stage.world.command("hmem", "memory", "list", str(stranger)).stdout
    say(stage, stranger, invite(stage), WELCOME, user=guest)
    say(stage, stranger, "/memory", "The cat is grey", user=guest)


def test_a_removed_guest_gets_nothing_from_the_outbox_or_schedules(stage: Stage, stranger: int) -> None:
    pytest.importorskip("dispatcher.features.schedules", reason="without the feature")
    say(stage, stranger, invite(stage), WELCOME)
    say(stage, stranger, "/every day 8:00 what is new?", "Question 1")
    assert stage.redis.hget(keys.chat_settings(str(stranger)), ACCESS) == ChatAccess.LIMITED.encode()
    say(stage, CHAT, f"/guests remove {stranger}", "is no longer a guest")
    assert stage.redis.hget(keys.chat_settings(str(stranger)), ACCESS) == ChatAccess.CLOSED.encode()
    from tests.support.day.talking import store

    with store(stage.world).begin() as connection:
        from sqlalchemy import text

        connection.execute(
            text("UPDATE schedules SET due = :now WHERE chat_id = :chat"), {"now": time.time(), "chat": str(stranger)}
        )
    stage.push({"chat_id": str(stranger), "text": "reminder"})
    wait_until(lambda: not stage.redis.llen(keys.outbox("main")), lambda: "the outbox to be emptied")
    before = len(stage.api.texts(stranger))
    time.sleep(3.0)
    assert len(stage.api.texts(stranger)) == before
    assert not [one for one in stage.queued() if one["chat_id"] == str(stranger)]


def test_a_button_of_a_removed_guest_is_refused(stage: Stage, stranger: int) -> None:
    say(stage, stranger, invite(stage), WELCOME)
    shown = say(stage, stranger, "/model", "Model of this chat")
    assert labels(shown)
    stage.redis.hdel(own.GUESTS, str(stranger))
    stage.api.press(stranger, labels(shown)[0], {"id": stranger, "is_bot": False, "first_name": "Ada"})
    wait_until(lambda: "somebody else" in "".join(toasts(stage)[-1:]), lambda: str(toasts(stage)))
    longest = Presses(SECRET).data(Button("Remove", "/guests remove -1001234567890123"), CHAT, str(CHAT))
    assert len(longest) <= 64


def test_an_owner_allows_a_group_from_the_group(stage: Stage) -> None:
    silent(stage, ELSEWHERE, "/invite here", MEMBER)
    silent(stage, ELSEWHERE, "/invite", OWNER)
    silent(stage, ELSEWHERE, "/help", OWNER)
    say(stage, ELSEWHERE, "/invite here", "I answer in this group from now on", user=OWNER)
    say(stage, ELSEWHERE, "/invite here", "I answer in this group already", user=OWNER)
    say(stage, ELSEWHERE, "/memory add the hall is booked", "number 1", user=MEMBER)
    assert "makes a code" in say(stage, GROUP, "/invite", "/invite makes", user=OWNER).text
    say(stage, GROUP, "/guests", "only in a private chat", user=OWNER)
    listed = say(stage, CHAT, "/guests", f"(group {ELSEWHERE})")
    button = next(one for one in labels(listed) if one.startswith("Remove") and "group" in one.lower())
    press(stage, CHAT, button, "is no longer a guest")
    silent(stage, ELSEWHERE, "/help", OWNER)


def test_forgetting_the_chat_of_a_guest_ends_that_too(stage: Stage, stranger: int) -> None:
    say(stage, stranger, invite(stage), WELCOME)
    invite(stage)
    forget_in_redis(stage.redis, str(stranger))
    assert not stage.redis.hexists(own.GUESTS, str(stranger))
    assert keys_of(stage.redis, "hcli:mem:invite:*"), "that one is the owner's"
    forget_in_redis(stage.redis, str(CHAT))
    assert not keys_of(stage.redis, "hcli:mem:invite:*")


def test_how_long_a_code_works() -> None:
    known = {"": 86_400, "7d": 604_800, "12H": 43_200, "30 m": 1_800}
    assert {text: seconds_of(text) for text in known} == known
    assert [seconds_of(text) for text in ("31d", "0d", "soon", "1w", "-1d")] == [None] * 5


def test_a_guest_and_an_invitation_that_our_bot_did_not_write_let_nobody_in(stage: Stage, stranger: int) -> None:
    code = "a" * 24
    for raw in (b"", b"[]", b'{"since": null}', b"\xff", b'{"name": "Mal", "since": 1.0, "by": "9912"}'):
        stage.redis.hset(own.GUESTS, str(stranger), raw)
        stage.redis.delete(keys.bot_told(str(stranger)))
        assert REFUSED in say(stage, stranger, "hello", REFUSED).text
        say(stage, CHAT, "/guests", "")
    stage.redis.set(own.invite(hashed(code)), f'{{"by": "{CHAT}", "at": 1.0}}')
    say(stage, stranger, code, NOT_VALID)
    stage.redis.hdel(own.GUESTS, str(stranger))
    log = next(stage.world.root.glob("bot-*.log")).read_text()
    assert "a guest is refused: the record is not signed with our RESULT_HMAC_KEY" in log
    assert "an invitation is refused" in log
