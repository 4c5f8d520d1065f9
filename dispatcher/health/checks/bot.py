"""Checks of our bot, as far as this host can make them: its settings, and whether one runs."""

from __future__ import annotations

from typing import cast

from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, warning
from dispatcher.queue.admission import chats_let_in
from shared.turns.message_origin import is_group
from shared.wire import keys
from shared.wire.values import shown


def check_bot(setup: Setup) -> Finding:
    """A bot receives messages."""
    holder = cast(bytes | None, setup.redis.get(keys.BOT_OWNER))
    if setup.settings.telegram_bot_token is None:
        if holder:
            return ok(
                f"The bot runs: {shown(holder)}; its token and chats are in settings that this command does not read."
            )
        return ok(
            "TELEGRAM_BOT_TOKEN is not set here: messages are expected to come from another bot, or from a bot with another settings file."
        )
    let_in = chats_let_in(setup.redis)
    allowed = setup.settings.allowed | let_in
    if not allowed:
        return warning(
            "ALLOWED_CHATS is empty, and no other chat is let in, so the bot answers no one.",
            "Write to the bot: it replies with the chat id to add.",
        )
    if holder is None:
        return problem(
            Fault.BOT_NOT_RUNNING,
            "TELEGRAM_BOT_TOKEN is set, but no bot runs, so no messages are received.",
            "Start hmem telegram (systemctl start hmem-telegram), and look at its log.",
        )
    of_them = f", {len(let_in)} of them as guests" if let_in else ""
    return ok(f"The bot runs: {shown(holder)}; {len(allowed)} chats are allowed{of_them}.")


def check_owners(setup: Setup) -> Finding:
    """At least one person has an owner's rights in the groups."""
    settings = setup.settings
    if settings.owner_ids:
        return ok(f"OWNERS gives {len(settings.owner_ids)} people an owner's rights in groups.")
    if any(is_group(str(chat)) for chat in settings.allowed | chats_let_in(setup.redis)):
        return warning(
            "A group is allowed but OWNERS is empty, so no one may forget, change the model, use /new or cancel for others there.",
            "Add the owners' user ids to OWNERS, for bot and dispatcher. The bot shows people their number when it refuses them.",
        )
    return ok("OWNERS is empty: no one has an owner's rights in groups.")
