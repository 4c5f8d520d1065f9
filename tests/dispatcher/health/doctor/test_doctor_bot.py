"""`hmem doctor` and `hmem status` on the Telegram bot and the settings file."""

from __future__ import annotations

import pytest

from tests.support.day.health import looks
from tests.support.world import World

TOKEN = {"TELEGRAM_BOT_TOKEN": "1:secret", "ALLOWED_CHATS": "9912"}


@pytest.mark.slow
def test_a_bot_that_runs_and_one_that_answers_no_one(host: World) -> None:
    assert looks(host, "bot").state == "ok", "without a token another bot is expected"
    host.redis.set("hcli:mem:bot:owner", "box-7-abc")
    host.environment |= TOKEN
    assert (looks(host, "bot").state, "box-7-abc" in looks(host, "bot").sentence) == ("ok", True)
    assert "box-7-abc" in host.status().stdout
    host.environment["ALLOWED_CHATS"] = ""
    assert "answers no one" in looks(host, "bot").sentence


def test_a_bot_whose_token_only_its_own_file_has_is_as_it_should_be(host: World) -> None:
    """As hmem init sets up three users: what is said is no difference that somebody would have to remove."""
    host.redis.set("hcli:mem:bot:owner", "box-7-abc\x1b[2J")
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


@pytest.mark.slow
def test_a_settings_file_that_others_may_read_is_named_if_a_secret_is_in_it(host: World) -> None:
    file = host.root / "hmem.toml"
    secret, others = 'RESULT_HMAC_KEY = "a-key-of-sixteen-letters"\n', "users other than its owner"
    cases = (secret, 0o640, others, True), (secret, 0o600, "RESULT_HMAC_KEY is set", True), ("", 0o644, others, False)
    for key, mode, words, there in cases:
        file.write_text(f'ALLOWED_CHATS = [9912, -1001]\nCHAT_TIMEZONE = "Europe/Berlin"\n{key}')
        file.chmod(mode)
        done = host.command("hmem", "doctor", check=False, HMEM_CONFIG=str(file))
        assert (words in done.stdout) is there, done.stdout
