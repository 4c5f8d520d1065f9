"""Checks of the queue: a dispatcher takes messages from it, there are no dead letters, and files that wait for the night have room."""

from __future__ import annotations

from typing import Any

from dispatcher.health.findings import Fault, Finding, Setup, of_error, ok, problem, warning
from dispatcher.queue.state import queue_error, read_queue
from shared.text.format import counted, size_text
from shared.wire import keys
from shared.wire.media.kept import MOST_BYTES, waiting_files
from shared.wire.values import shown

#: Part of that room from which the owner should know.
NEARLY_FULL = 0.8


def check_dispatcher(setup: Setup) -> Finding:
    """A dispatcher runs and takes tasks from the queue."""
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
    """There are no dead letters."""
    dead = setup.redis.llen(keys.DEAD)
    if not dead:
        return ok("There are no dead letters.")
    several = f"{dead} messages are" if dead > 1 else "1 message is"
    return problem(
        Fault.DEAD_LETTERS,
        f"{several} unanswered in the dead letters: they could not be read, or a dispatcher crashed while answering.",
        "List them with hmem dead list, then use hmem dead retry or hmem dead drop.",
    )


def check_kept_files(setup: Setup) -> Finding:
    """The files of messages that wait for the night have room."""
    listed: Any = setup.redis.hgetall(keys.KEPT) if setup.redis.type(keys.KEPT) == b"hash" else {}
    sizes, most = [one.size for one in waiting_files(listed)], MOST_BYTES
    if not (sizes or setup.settings.keep_media):
        return ok("KEEP_MEDIA is not set: files of messages are not kept.")
    files = counted(len(sizes), "file of messages waits", "files of messages wait")
    sentence = f"{files} for the night, {size_text(sum(sizes))} of {size_text(most)}"
    if sum(sizes) >= NEARLY_FULL * most:
        fix = "Run hmem-night run."
        return warning(f"{sentence}. When that is used up, files are not kept, and their turns say so.", fix)
    return ok(f"{sentence}.")


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
