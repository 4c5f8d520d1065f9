"""Checks of the queue: a dispatcher takes messages from it, and there are no dead letters."""

from __future__ import annotations

from dispatcher.health.findings import Fault, Finding, Setup, of_error, ok, problem, warning
from dispatcher.queue.state import queue_error, read_queue
from shared.wire import keys
from shared.wire.values import shown


def check_dispatcher(setup: Setup) -> Finding:
    """A dispatcher runs and takes tasks from the queue."""
    state = read_queue(setup.redis, setup.now())
    if error := queue_error(setup.redis, state):
        return of_error(error)
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
