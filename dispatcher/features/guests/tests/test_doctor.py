"""`hmem doctor` and `hmem status` on guests."""

from __future__ import annotations

from tests.support.day.health import looks
from tests.support.world import World


def test_guests_count_as_allowed_chats(light: World) -> None:
    light.environment |= {"TELEGRAM_BOT_TOKEN": "1:secret", "ALLOWED_CHATS": ""}
    light.redis.set("hcli:mem:bot:owner", "box-7-abc")
    light.redis.hset("hcli:mem:guests", "5151", b'{"name": "Gil", "since": 1, "by": "9912"}')
    light.redis.hset("hcli:mem:guests", "6161", b'{"name": "Eve", "since": 1, "by": "9912", "removed": 2}')
    assert "1 chats are allowed, 1 of them as guests" in looks(light, "bot").sentence
    assert "1 (beside ALLOWED_CHATS)" in light.status(check=False).stdout
    light.redis.hset("hcli:mem:guests", "-1001", b'{"name": "Group", "since": 1, "by": "9912"}')
    assert "A group is allowed but OWNERS is empty" in looks(light, "owners").sentence


def test_a_key_of_another_type_lets_nobody_in(light: World) -> None:
    light.environment |= {"TELEGRAM_BOT_TOKEN": "1:secret", "ALLOWED_CHATS": ""}
    light.redis.set("hcli:mem:guests", "5151")
    assert "answers no one" in looks(light, "bot").sentence
