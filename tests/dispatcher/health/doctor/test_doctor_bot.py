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


@pytest.mark.slow
def test_a_group_without_an_owner_is_warned_of(host: World) -> None:
    assert looks(host, "owners").state == "ok"
    host.environment["ALLOWED_CHATS"] = "9912,-1001"
    found = looks(host, "owners")
    assert (found.state, "OWNERS is empty" in found.sentence, "user ids" in found.fix) == ("warning", True, True)
    host.environment["OWNERS"] = "9912"
    assert looks(host, "owners").state == "ok"
