"""The questions of `hmem init`. What the environment or an earlier run has set is not asked for."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress

from tzlocal import get_localzone_name

from dispatcher.installation.hooks import init_questions
from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.init.telegram_bot import prove_token, wait_for_hello
from dispatcher.installation.layout import refuse_strange
from dispatcher.installation.settings_files import new_key
from shared.config import values as value_checks
from shared.errors import InstallationIncomplete, SettingsError
from shared.hooks import features
from shared.turns.signed import signing_key

DEFAULT_NIGHT = "03:00"


def ask_everything(installation: InstallationInProgress) -> None:
    """Fill in the settings to be, so that nothing has to be asked later (but the login, once the CLI is there)."""
    installation.settings()  # what is given must be right before anything is asked
    ask_bot(installation)
    ask_night(installation)
    ask_writer(installation)
    features().ask(init_questions, installation=installation)
    values = installation.values
    values.setdefault("RESULT_HMAC_KEY", new_key())
    signing_key(installation.settings(), "hmem run refuses to start")
    layout = installation.layout
    ours = {"HMEM_STATE_DIR": layout.state, "HMEM_NIGHT_DIR": layout.night, "HMEM_MEMORY_DIR": layout.memory}
    for name, path in ours.items():
        if values.setdefault(name, str(path)) != str(path):
            raise InstallationIncomplete(
                f"{name} is {values[name]}, but hmem init uses {path}. Unset it; to have the data on another disk, mount that there."
            )
    if not values.get("ARCHIVE_MIRROR"):
        installation.notes.append(
            "The archive of all conversations is on one disk. Set ARCHIVE_MIRROR to another disk or host when you have one (docs/install.md)."
        )
    refuse_strange(*values.get("ARCHIVE_MIRROR", "").split(":")[-1:])
    installation.settings()


def ask_bot(installation: InstallationInProgress) -> None:
    """Token, chat and owner."""
    terminal, values = installation.terminal, installation.values
    names: list[str] = []

    def proven(token: str) -> str:
        names.append(prove_token(installation.settings(TELEGRAM_BOT_TOKEN=token)))
        return token.strip()

    if not values.get("TELEGRAM_BOT_TOKEN"):
        terminal.explain(
            "A bot is made in Telegram: write /newbot to @BotFather, and copy the token that it answers with."
        )
    given = values.get("TELEGRAM_BOT_TOKEN", "")
    values["TELEGRAM_BOT_TOKEN"] = terminal.ask(
        "TELEGRAM_BOT_TOKEN, the bot's token", "", proven, given=given, secret=True
    )
    terminal.done("bot", f"{names[-1]} is yours")
    if not values.get("ALLOWED_CHATS"):
        _ask_chat(installation, names[-1])
    chat = values["ALLOWED_CHATS"].split(",")[0].strip()
    if not chat.startswith("-"):  # a private chat has its person's number
        values.setdefault("OWNERS", chat)
    values.setdefault("REPORT_CHAT", chat)


def _ask_chat(installation: InstallationInProgress, bot: str) -> None:
    """By a message, because nobody knows the number of a chat; with a number in it that only this terminal shows, because anybody may write to a
    bot."""
    terminal = installation.terminal
    if terminal.unattended:
        raise InstallationIncomplete(
            "ALLOWED_CHATS, the number of your chat, is not given, and with --yes nobody sees what to write to the bot. Set it in the "
            "environment, or run hmem init on a terminal."
        )
    code = f"{secrets.randbelow(1_000_000):06}"
    terminal.say(f"  Now write to {bot} in Telegram, in your own chat with it: hello {code}")
    chat, name = wait_for_hello(installation, bot, code)
    installation.values |= dict.fromkeys(("ALLOWED_CHATS", "OWNERS", "REPORT_CHAT"), str(chat))
    terminal.done("chat", f"{chat} ({name})")


def ask_night(installation: InstallationInProgress) -> None:
    """When the night runs, and by the clock of which time zone."""
    values = installation.values
    zone = values.get("CHAT_TIMEZONE") or _time_zone()
    if given := values.get("NIGHT_CRON"):
        if installation.layout.kind == "three-users" and not re.fullmatch(r"\d{1,2} \d{1,2} \* \* \*", given):
            raise InstallationIncomplete(
                f"NIGHT_CRON is {given!r}, but under systemd hmem init makes a timer for once a day. Write it like 0 3 * * *."
            )
        values["CHAT_TIMEZONE"] = zone
        return
    installation.terminal.explain(
        "Each night the day's talk becomes memory. When, and by which clock? (such as 04:30, or 03:00 Europe/Berlin)"
    )
    found: dict[str, str] = {}

    def checked(answer: str) -> str:
        parsed = re.fullmatch(r"(\d{1,2}):(\d{2})(?:\s+(\S+))?", answer.strip())
        if not parsed or int(parsed[1]) > 23 or int(parsed[2]) > 59:
            raise ValueError("Write a time, such as 03:00, and if you like a time zone after it")
        found["CHAT_TIMEZONE"] = value_checks.known_zone(parsed[3] or zone)
        found["NIGHT_CRON"] = f"{int(parsed[2])} {int(parsed[1])} * * *"
        return answer

    installation.terminal.ask("Night at", f"{DEFAULT_NIGHT} {zone}", checked)
    values.update(found)


def ask_writer(installation: InstallationInProgress) -> None:
    """Which model puts memories in order by night; none unless it is named."""
    installation.terminal.explain(
        "A model can put the notes of each chat in order by night: what was corrected, what has ended, what is noted twice. "
        "Each change is shown and can be taken back. What was said, old imports too, is sent to it: with claude to the provider "
        "of your login, as your messages are (hmem usage has the cost); with ollama:NAME to your own server."
    )

    def checked(answer: str) -> str:
        try:
            installation.settings(WRITER="" if answer == "none" else answer)
        except SettingsError as error:
            raise ValueError("Write none, claude:haiku, or ollama: and the name of a model") from error
        return answer

    given = installation.values.get("WRITER", "")
    answer = installation.terminal.ask(
        "Who puts notes in order (none, claude:haiku, ollama:NAME)", "none", checked, given=given
    )
    if answer != "none":
        installation.values["WRITER"] = answer


def _time_zone() -> str:
    """This system's zone by its IANA name; UTC if it has none."""
    with suppress(ValueError, LookupError):
        return value_checks.known_zone(get_localzone_name())
    return "UTC"
