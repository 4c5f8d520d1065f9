"""Checks of the Telegram bot, as far as they can be made from here: its settings, and whether one runs."""

from __future__ import annotations

from typing import cast

from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, warning
from shared.wire import keys


def check_bot(setup: Setup) -> Finding:
    """Somebody brings messages in."""
    holder = cast(bytes | None, setup.redis.get(keys.BOT_OWNER))
    if setup.settings.telegram_bot_token is None:
        if holder:
            return ok(f"The bot runs: {holder.decode('utf-8', 'replace')}. Its settings are not these.")
        return ok(
            "TELEGRAM_BOT_TOKEN is not set here: another bot, or another settings file, is expected to bring messages in."
        )
    if not setup.settings.allowed:
        return warning(
            "ALLOWED_CHATS is empty, so the bot answers nobody.", "Write to the bot; it says what to put there."
        )
    if holder is None:
        return problem(
            Fault.BOT_NOT_RUNNING,
            "TELEGRAM_BOT_TOKEN is set, and no bot runs: no message comes in.",
            "Start hmem telegram (systemctl start hmem-telegram), and look at its log.",
        )
    return ok(f"The bot runs: {holder.decode('utf-8', 'replace')}; {len(setup.settings.allowed)} chats are allowed.")


def check_owners(setup: Setup) -> Finding:
    """Somebody has an owner's rights in the groups."""
    settings = setup.settings
    if settings.owner_ids:
        return ok(f"OWNERS names {len(settings.owner_ids)} with an owner's rights in groups.")
    if any(chat < 0 for chat in settings.allowed):
        return warning(
            "ALLOWED_CHATS holds a group and OWNERS is empty, so nobody there may forget, choose a model, begin anew or cancel for others.",
            "Put the user ids of the owners into OWNERS, for bot and dispatcher; the bot tells everyone whom it refuses their number.",
        )
    return ok("OWNERS is empty: in groups nobody has an owner's rights.")
