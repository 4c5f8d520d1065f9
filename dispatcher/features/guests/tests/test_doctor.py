"""`hmem doctor` and `hmem status` on guests."""

from __future__ import annotations

from dispatcher.features.guests.records import Guest
from dispatcher.queue.chats import signed_move
from tests.support.day.health import looks
from tests.support.world import SECRET, World


def test_guests_count_as_allowed_chats(light: World) -> None:
    light.environment |= {"TELEGRAM_BOT_TOKEN": "1:secret", "ALLOWED_CHATS": ""}
    light.redis.set("hcli:mem:bot:owner:main", "box-7-abc")
    light.redis.hset("hcli:mem:guests", "5151", Guest("5151", "Gil", 1, "9912").signed(SECRET))
    light.redis.hset("hcli:mem:guests", "6161", Guest("6161", "Eve", 1, "9912", removed=2).signed(SECRET))
    assert "1 chat is allowed, 1 of them as guests" in looks(light, "bot").sentence
    assert "1 (beside ALLOWED_CHATS)" in light.status(check=False).stdout
    light.redis.hset("hcli:mem:guests", "-1001", Guest("-1001", "Group", 1, "9912").signed(SECRET))
    assert "A group is allowed but OWNERS is empty" in looks(light, "owners").sentence


def test_a_key_of_another_type_lets_nobody_in(light: World) -> None:
    light.environment |= {"TELEGRAM_BOT_TOKEN": "1:secret", "ALLOWED_CHATS": ""}
    light.redis.set("hcli:mem:guests", "5151")
    assert "answers no one" in looks(light, "bot").sentence


def test_a_guest_that_somebody_wrote_into_redis_is_refused_and_named(light: World) -> None:
    light.redis.hset("hcli:mem:guests", "7171", b'{"name": "Mal", "since": 1, "by": "9912"}')
    light.redis.hset("hcli:mem:guests", "7272", Guest("7373", "moved", 1, "9912").signed(SECRET))
    found = looks(light, "guests")
    assert (
        "2 guests are refused, because the record is not signed with this RESULT_HMAC_KEY: 7171, 7272."
        in found.sentence
    )
    light.redis.hset(
        "hcli:mem:moved",
        mapping={"-7": signed_move(SECRET, -7, -1007), "-8": signed_move("another key" * 3, -8, -1008)},
    )
    assert "The new number of 1 group is not believed" in looks(light, "guests").sentence
