"""The questions: what is asked, what is not, and bad answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.installation.init import questions
from dispatcher.installation.init.questions import ask_bot, ask_everything
from shared.errors import HmemError, InstallationIncomplete
from shared.hooks import Hooks
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.support.processes.installing import CHAT, ScriptedTerminal, installation_in

NOOR = {"id": CHAT, "is_bot": False, "first_name": "Noor", "username": "noor"}
STRANGER = {"id": 666, "is_bot": False, "first_name": "Eve"}


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with TelegramApi() as api:
        yield api


@pytest.fixture(autouse=True)
def _nothing_of_this_machine_and_no_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those ask their own questions, in tests of theirs. The number that the terminal shows to its owner alone is 000042."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setattr(questions, "features", lambda: Hooks([]))
    monkeypatch.setattr("secrets.randbelow", lambda _: 42)


def test_token_chat_night_and_writer_take_three_answers_and_a_message(tmp_path: Path, api: TelegramApi) -> None:
    terminal = ScriptedTerminal(TOKEN, "", "gpt", "claude:haiku")
    installation = installation_in(tmp_path, terminal, {"TELEGRAM_API_URL": api.url})
    api.say(CHAT, "hello 000042", NOOR)
    ask_everything(installation)
    assert "hello 000042" in terminal.text
    assert "Write none, claude:haiku" in terminal.text
    assert installation.values["WRITER"] == "claude:haiku"
    values = installation.values
    assert (values["ALLOWED_CHATS"], values["OWNERS"], values["REPORT_CHAT"]) == (str(CHAT),) * 3
    assert (values["NIGHT_CRON"], values["CHAT_TIMEZONE"]) == ("0 3 * * *", "Europe/Berlin")
    assert len(values["RESULT_HMAC_KEY"]) == 64
    assert api.offset > 0, "the bot gets no such message, so it is neither answered nor remembered"


def test_a_wrong_token_is_said_and_asked_for_again(tmp_path: Path, api: TelegramApi) -> None:
    terminal = ScriptedTerminal("nonsense", "4242:AAwrong-but-of-the-right-form-of-a-token", TOKEN)
    installation = installation_in(tmp_path, terminal, {"TELEGRAM_API_URL": api.url, "ALLOWED_CHATS": "1"})
    ask_bot(installation)
    assert "is not a bot token" in terminal.text
    assert "Telegram does not know this token" in terminal.text
    assert installation.values["TELEGRAM_BOT_TOKEN"] == TOKEN


def test_a_wrong_token_of_the_environment_ends_it_and_is_not_shown(tmp_path: Path, api: TelegramApi) -> None:
    secret = "4242:AA" + "s" * 30
    given = {"TELEGRAM_API_URL": api.url, "TELEGRAM_BOT_TOKEN": secret}
    with pytest.raises(InstallationIncomplete, match="Telegram does not know this token") as error:
        ask_bot(installation_in(tmp_path, ScriptedTerminal(unattended=True), given))
    assert secret not in str(error.value)


def test_only_who_sees_the_number_is_the_owner_and_not_a_group(tmp_path: Path, api: TelegramApi) -> None:
    terminal = ScriptedTerminal()
    installation = installation_in(tmp_path, terminal, {"TELEGRAM_API_URL": api.url, "TELEGRAM_BOT_TOKEN": TOKEN})
    api.say(666, "hello", STRANGER)
    api.say(666, "hello 000043", STRANGER)
    api.say(-100, "hello 000042", NOOR)
    api.say(CHAT, "Hello! 000042", NOOR | {"first_name": "No\x1b[2Kor"})
    ask_bot(installation)
    assert installation.values["ALLOWED_CHATS"] == str(CHAT)
    assert "\x1b" not in terminal.text


def test_nobody_is_taken_for_the_owner_unattended(tmp_path: Path, api: TelegramApi) -> None:
    api.say(666, "hi bot", STRANGER)
    values = {"TELEGRAM_API_URL": api.url, "TELEGRAM_BOT_TOKEN": TOKEN}
    with pytest.raises(InstallationIncomplete, match="nobody sees what to write"):
        ask_bot(installation_in(tmp_path, ScriptedTerminal(unattended=True), values))


def test_what_is_given_is_not_asked_for(tmp_path: Path, api: TelegramApi) -> None:
    of_bot = {"TELEGRAM_API_URL": api.url, "TELEGRAM_BOT_TOKEN": TOKEN, "ALLOWED_CHATS": "-100,5"}
    of_night = {"CHAT_TIMEZONE": "Asia/Tokyo", "NIGHT_CRON": "30 2 * * *", "ARCHIVE_MIRROR": "/mnt/a"}
    given = {**of_bot, **of_night, "EMBEDDER": "none", "WRITER": "claude"}
    terminal = ScriptedTerminal()
    installation = installation_in(tmp_path, terminal, given)
    ask_everything(installation)
    assert terminal.asked == []
    assert given.items() <= installation.values.items()
    assert "OWNERS" not in installation.values, "a group's number is nobody's"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ALLOWED_CHATS", "noor", "ALLOWED_CHATS"),
        ("HMEM_NIGHT_DIR", "/elsewhere", "mount that there"),
        ("ARCHIVE_MIRROR", "/mnt/my disk", "characters that services cannot have"),
    ],
)
def test_what_would_fail_later_is_said_at_once(
    tmp_path: Path, api: TelegramApi, name: str, value: str, why: str
) -> None:
    given = {"TELEGRAM_API_URL": api.url, "TELEGRAM_BOT_TOKEN": TOKEN, "ALLOWED_CHATS": "5", "NIGHT_CRON": "0 3 * * *"}
    with pytest.raises(HmemError, match=why):
        ask_everything(installation_in(tmp_path, ScriptedTerminal(unattended=True), {**given, name: value}))
