"""A time limit for a step: what hangs (a disk, a server, a library) must end the night with a code, not hold its lease for ever."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from shared.errors import StepTimeout

#: What the main thread is woken by. Python runs the handler between two of its instructions, or out of a system call.
_SIGNAL = signal.SIGUSR1
#: Seconds after which a step that cannot be interrupted (it hangs inside a library) takes the whole process with it.
GRACE_SECONDS = 60.0


@contextmanager
def time_limit(step: str, seconds: float) -> Iterator[None]:
    """StepTimeout in the main thread after `seconds`; the process ends with the same code if that does not get through.

    Ending it is safe at any instant: the next run goes on like after a crash. Outside the main thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    why = (
        f"Step {step} took longer than {seconds:g} s (STEP_TIMEOUT). Nothing was deleted; look at what it waits for (log, Ollama, disk, "
        "network), then run the night again: it goes on there."
    )

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        raise StepTimeout(why)

    def give_up() -> None:
        sys.stderr.write(f"StepTimeout: {why}\n")
        sys.stderr.flush()
        os._exit(StepTimeout.exit_code)

    signal.signal(_SIGNAL, interrupt)
    timers = [
        threading.Timer(seconds, lambda: os.kill(os.getpid(), _SIGNAL)),
        threading.Timer(seconds + GRACE_SECONDS, give_up),
    ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        signal.signal(_SIGNAL, signal.SIG_IGN)  # one that is under way now would end the process
