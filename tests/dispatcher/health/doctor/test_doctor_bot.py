"""`hmem doctor` and `hmem status` on the Telegram bot and the settings file."""

from __future__ import annotations

import pytest

from tests.support.day.health import looks
from tests.support.world import World


def test_a_bot_whose_token_only_its_own_file_has_is_as_it_should_be(host: World) -> None:
    """As hmem init sets up three users: what is said is no difference that somebody would have to remove."""
    host.redis.set("hcli:mem:bot:owner:main", "box-7-abc\x1b[2J")
    found = looks(host, "bot")
    assert (found.state, found.fix) == ("ok", "")
    assert found.sentence.startswith("The bot runs: box-7-abc")
    assert found.sentence.endswith("its token and chats are in settings that this command does not read.")
    assert "\x1b" not in found.sentence


def test_a_token_of_another_form_is_said_without_telegram_and_not_shown(host: World) -> None:
    host.environment["ALLOWED_CHATS"] = "9912"
    host.redis.set("hcli:mem:bot:owner:main", "box-7-abc")
    for token, wrong in (
        ("no-token-secret", "no colon"), ('"1:secret"', "a quotation mark in it"), ("1:se cret", "a space in it"), ("1:", "another form"),
    ):  # fmt: skip
        host.environment["TELEGRAM_BOT_TOKEN"] = token
        found = looks(host, "bot")
        assert (found.state, found.code, f"not a bot token: it has {wrong}" in found.sentence) == ("problem", 41, True)
        assert "@BotFather" in found.fix
        assert "cret" not in found.sentence + found.fix
    host.environment["TELEGRAM_BOT_TOKEN"] = " 1:secret\n"
    assert looks(host, "bot").state == "ok"


@pytest.mark.slow
def test_a_group_without_an_owner_is_warned_of(host: World) -> None:
    assert looks(host, "owners").state == "ok"
    host.environment["ALLOWED_CHATS"] = "9912,-1001"
    found = looks(host, "owners")
    assert (found.state, "OWNERS is empty" in found.sentence, "user ids" in found.fix) == ("warning", True, True)
    host.environment["OWNERS"] = "9912"
    assert looks(host, "owners").state == "ok"
