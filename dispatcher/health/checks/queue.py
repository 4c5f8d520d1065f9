"""Checks of the way of a message: somebody takes it from the queue, and none was set aside."""

from __future__ import annotations

from dispatcher.health.findings import Fault, Finding, Setup, of_error, ok, problem, warning
from dispatcher.queue.state import queue_error, read_queue
from shared.wire import keys


def check_dispatcher(setup: Setup) -> Finding:
    """A dispatcher runs and takes what is queued."""
    settings = setup.settings
    state = read_queue(setup.redis, settings.task_bytes, setup.now())
    if error := queue_error(setup.redis, settings, state):
        return of_error(error)
    sentence = (
        f"The dispatcher runs: {', '.join(state.dispatchers)}; {state.waiting}, {state.answering} are being answered."
    )
    if (state.oldest_seconds or 0.0) > settings.task_timeout:
        return warning(
            f"{sentence} That is longer than one answer may take (TASK_TIMEOUT).",
            "Look at its log for answers that hang, or raise MAX_CONCURRENT_TASKS.",
        )
    return ok(sentence)


def check_dead(setup: Setup) -> Finding:
    """No message was set aside unanswered."""
    dead = setup.redis.llen(keys.DEAD)
    if not dead:
        return ok("No message was set aside.")
    several = f"{dead} messages were" if dead > 1 else "1 message was"
    return problem(
        Fault.DEAD_LETTERS,
        f"{several} set aside unanswered (dead letters): they could not be read, or a dispatcher died over them.",
        "Look at them with hmem dead list, then hmem dead retry or hmem dead drop.",
    )
