"""Checks for an installation that also runs h-cli's bot or dispatcher: what those do differently, and the consequences."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, warning
from dispatcher.queue.outbox import KEPT_DAYS, created_at
from shared.wire import keys

#: Turns that are checked.
SAMPLED_TURNS = 10_000
#: Seconds before its bot times out at which an answer must be there: the bot looks once a second, and stopping the CLI takes a while.
MARGIN_SECONDS = 20
#: Our bot fetches within a second; a message older than this is not fetched by any bot.
UNFETCHED_SECONDS = 600.0


def check_expiry(setup: Setup) -> Finding:
    """Turns stay until a night has archived them. h-cli's dispatcher lets them expire after four hours."""
    client: Any = setup.redis
    names = list(islice(client.scan_iter(match=keys.MEMORY_PREFIX + "*", count=5000), SAMPLED_TURNS))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.ttl(name)
        lives = [seconds for seconds in pipe.execute() if seconds >= 0]
    if not lives:
        return ok("No turn in Redis expires before a night has archived it.")
    sample = "" if len(names) < SAMPLED_TURNS else f" of {SAMPLED_TURNS} that were checked"
    return problem(
        Fault.PERSISTENCE,
        f"{len(lives)} turns{sample} expire in Redis, the first in {min(lives) / 3600:.1f} hours, the last in {max(lives) / 3600:.1f}: "
        "h-cli's dispatcher wrote them, and those that no night has archived by then are lost.",
        "Run hmem-night run now. Then replace that dispatcher with hmem run, or give it SESSION_TTL=172800 and run the night daily.",
    )


def check_patience(setup: Setup) -> Finding:
    """An answer is there before its bot times out."""
    raw = cast(bytes | None, setup.redis.get(keys.PATIENCE)) or b""
    limit, patience = setup.settings.task_timeout, int(raw) if raw.isdigit() and len(raw) < 8 else None
    if patience is None:
        return ok("No bot with its own time limit has sent a message within a week.")
    if limit <= max(1, patience - MARGIN_SECONDS):
        return ok(f"The bot waits {patience} s for an answer, longer than TASK_TIMEOUT ({limit:g} s).")
    return warning(
        f"The bot waits {patience} s for an answer, but TASK_TIMEOUT is {limit:g} s: an answer that takes longer than the bot waits is stopped, "
        "and the chat shows that it timed out.",
        f"Set TASK_TIMEOUT to {max(1, patience - MARGIN_SECONDS)}, or raise the bot's own limit (h-cli's: its TASK_TIMEOUT).",
    )


def check_outbox(setup: Setup) -> Finding:
    """Reminders are fetched."""
    client: Any = setup.redis
    waiting, oldest = client.llen(keys.OUTBOX), client.lindex(keys.OUTBOX, 0)
    at = created_at(oldest) if oldest else None
    if oldest is None or (at is not None and setup.now() - at < UNFETCHED_SECONDS):
        return ok("No reminders are left unfetched.")
    return warning(
        f"{waiting} reminders wait, and no bot fetches them: hmem telegram does, h-cli's bot does not. They are dropped after {KEPT_DAYS} days.",
        "Start hmem telegram, or look up deadlines with /run /memory (h-cli's bot) or hmem memory list CHAT.",
    )
