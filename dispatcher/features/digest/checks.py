"""This feature's checks: a night has come by the morning report, Claude answers, and the owner's chat is one that the bot serves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dispatcher.features.digest import keys
from dispatcher.features.digest.settings import DigestSettings, report_due
from dispatcher.health.checks.night import LOOK_AT_NIGHT
from dispatcher.health.findings import Check, Finding, Setup, ok, warning
from dispatcher.health.nights import STALE_HOURS, nights_of
from dispatcher.queue.admission import chats_let_in
from dispatcher.queue.state import SAME_TROUBLE_SECONDS, read_holds
from shared.system import formats
from shared.text.format import time_text
from shared.wire.values import amount_of

#: Seconds after REPORT_AT by which a good night must have come.
LATE_SECONDS = 3_600.0
#: Seconds of errors only that are an alarm. One error and nobody who asks again is none.
ERROR_SECONDS = 900.0
#: Seconds for which it is told that the account did not pay for a question.
UNPAID_SECONDS = 3_600.0
#: When this process began.
STARTED = time.time()


def check_missed_night(setup: Setup) -> Finding:
    """Between the last time of day at which a night must have come and the one a day before, there was one."""
    now, zone, good = setup.now(), setup.settings.timezone, nights_of(setup.redis).good
    today = datetime.fromtimestamp(now, zone).date()
    days = [today - timedelta(back) for back in range(4)]
    limits = [limit for day in days if (limit := report_due(setup.settings, day) + LATE_SECONDS) <= now]
    last = good[1] if good else running_since(setup.settings.hmem_state_dir)
    if last > limits[1] and now - last <= STALE_HOURS * 3600:
        return ok(f"Night {good[0]} ended well at {time_text(good[1], zone)}." if good else "A night is not due yet.")
    said = (
        f"the last one (run {good[0]}) ended at {time_text(last, zone)}"
        if good
        else f"none has succeeded since the dispatcher first ran here ({time_text(last, zone)})"
    )
    due = time_text(limits[0], zone).split(" ")[1]
    return warning(f"No good night came by {due}: {said}.", LOOK_AT_NIGHT)


def running_since(state: Path) -> float:
    """When a dispatcher first ran here, which wrote the format of HMEM_STATE_DIR; the start of this process where that cannot be seen."""
    try:
        return (state / formats.NAME).stat().st_mtime
    except OSError:
        return STARTED


def check_answers(setup: Setup) -> Finding:
    """Claude has not given errors only."""
    client: Any = setup.redis
    first, last, unpaid = (amount_of(client.hget(keys.CLAUDE_ERRORS, name)) for name in ("first", "last", "unpaid"))
    zone = setup.settings.timezone
    if hold := read_holds(setup.redis, setup.now() - SAME_TROUBLE_SECONDS).get(""):
        since, reason = time_text(hold.since, zone), hold.reason(zone)
        waits = warning(
            f"Questions wait since {since}, because Claude says: {reason}. They are answered by themselves as soon as it answers again.",
            "Check hmem doctor (claude, login) as the dispatcher's user.",
        )
        return replace(waits, cause=hold.why)
    if abs(setup.now() - unpaid) < UNPAID_SECONDS:
        unpaid_for = warning(
            f"Claude's provider refused a question at {time_text(unpaid, zone)}, because this account does not pay for it.",
            "See what the account's page says of extra usage and credit. Each such question is asked once more without memory, which may help.",
        )
        return replace(unpaid_for, cause="unpaid")
    if not first or last - first < ERROR_SECONDS:
        return ok("Claude answers, as far as messages have shown.")
    return warning(
        f"Claude has given errors only since {time_text(first, zone)} (the last one at {time_text(last, zone)}).",
        "Check hmem doctor (claude, login) as the dispatcher's user and the dispatcher's log.",
    )


def check_report_chat(setup: Setup) -> Finding:
    """The bot may write to the owner's chat."""
    chat = setup.settings.of(DigestSettings).report_chat
    if not chat:
        return ok("REPORT_CHAT is not set: alarms are lines of the dispatcher's log.")
    if setup.settings.telegram_bot_token is None or chat in setup.settings.allowed | chats_let_in(
        setup.redis, setup.settings
    ):
        return ok(f"Alarms and the morning report go to chat {chat}.")
    return warning(
        f"REPORT_CHAT {chat} is none that the bot answers, so the bot sends it neither the morning report nor alarms.",
        "Add it to ALLOWED_CHATS, or correct REPORT_CHAT; then restart the bot and the dispatcher.",
    )


DIGEST_CHECKS: Sequence[Check] = (
    Check("missed night", check_missed_night, needs=("redis",), alarm="warning"),
    Check("answers", check_answers, needs=("redis",), alarm="warning"),
    Check("report chat", check_report_chat, needs=("redis",)),
)
