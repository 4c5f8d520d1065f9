"""Checks of the queue: a dispatcher takes messages from it, and there are no dead letters."""

from __future__ import annotations

from typing import cast

from dispatcher.health.findings import Fault, Finding, Setup, of_error, ok, problem, warning
from dispatcher.queue.admission import chats_let_in
from dispatcher.queue.state import queue_error, read_holds, read_queue
from shared.config.values import bot_token
from shared.text.format import counted, time_text
from shared.turns.message_origin import is_group
from shared.wire import keys
from shared.wire.ids import MAIN_BOT
from shared.wire.values import shown


def check_dispatcher(setup: Setup) -> Finding:
    """A dispatcher runs and takes tasks from the queue."""
    state = read_queue(setup.redis, setup.now())
    if error := queue_error(setup.redis, state):
        return of_error(error)
    if hold := next(iter(read_holds(setup.redis, setup.now()).values()), None):
        zone = setup.settings.timezone
        return warning(
            f"The dispatcher runs, but questions wait since {time_text(hold.since, zone)}: {hold.reason(zone)}; {state.waiting}.",
            "They are answered by themselves as soon as Claude answers. Check login and account (hmem doctor, claude).",
        )
    sentence = (
        f"The dispatcher runs: {', '.join(state.dispatchers)}; {state.waiting}, {state.answering} are being answered."
    )
    if (state.oldest_seconds or 0.0) > setup.settings.task_timeout:
        return warning(
            f"{sentence} That is longer than one answer may take (TASK_TIMEOUT).",
            "Look at its log for answers that hang, or raise MAX_CONCURRENT_TASKS.",
        )
    return ok(sentence)


def check_dead(setup: Setup) -> Finding:
    """There are no dead letters."""
    dead = setup.redis.llen(keys.DEAD)
    if not dead:
        return ok("There are no dead letters.")
    several = f"{dead} messages are" if dead > 1 else "1 message is"
    return problem(
        Fault.DEAD_LETTERS,
        f"{several} unanswered in the dead letters: they could not be read, or a dispatcher crashed while answering.",
        "List them with hmem dead, then use hmem dead --retry ID or hmem dead --drop ID.",
    )


def check_features(setup: Setup) -> Finding:
    """No feature has failed lately."""
    failed = {shown(name): shown(what) for name, what in setup.redis.hgetall(keys.FEATURES).items()}
    if not failed:
        return ok("No feature has failed in the last days.")
    listed = "; ".join(f"{name}: {what}" for name, what in sorted(failed.items()))
    return warning(
        f"Features failed, and messages were answered without them: {listed}.",
        "The dispatcher's log has each failure. Please report it; this warning disappears seven days after the last failure.",
    )


def check_bot(setup: Setup) -> Finding:
    """A bot receives messages."""
    holder = cast(bytes | None, setup.redis.get(keys.bot_owner(MAIN_BOT)))
    if setup.settings.telegram_bot_token is None:
        if holder:
            return ok(
                f"The bot runs: {shown(holder)}; its token and chats are in settings that this command does not read."
            )
        return ok(
            "TELEGRAM_BOT_TOKEN is not set here: messages are expected to come from another bot, or from a bot with another settings file."
        )
    try:
        bot_token(setup.settings.telegram_bot_token.get_secret_value())
    except ValueError as error:
        return problem(Fault.BOT_NOT_RUNNING, f"{error}.", "Copy it from @BotFather, then start hmem telegram.")
    let_in = chats_let_in(setup.redis, setup.settings)
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
    return ok(f"The bot runs: {shown(holder)}; {counted(len(allowed), 'chat is', 'chats are')} allowed{of_them}.")


def check_owners(setup: Setup) -> Finding:
    """At least one person has an owner's rights in the groups."""
    settings = setup.settings
    if settings.owner_ids:
        return ok(f"OWNERS gives {len(settings.owner_ids)} people an owner's rights in groups.")
    if any(map(is_group, settings.allowed | chats_let_in(setup.redis, setup.settings))):
        return warning(
            "A group is allowed but OWNERS is empty, so no one may forget, change the model, use /new or cancel for others there.",
            "Add the owners' user ids to OWNERS, for bot and dispatcher. The bot shows people their number when it refuses them.",
        )
    return ok("OWNERS is empty: no one has an owner's rights in groups.")
