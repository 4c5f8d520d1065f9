"""A time limit for a step: if something hangs (a disk, a server, a library), the night must end with an exit code and free its lease."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from shared.errors import StepTimeout

#: Seconds after which a step that cannot be interrupted (it hangs inside a library) ends the whole process.
GRACE_SECONDS = 60.0


@contextmanager
def time_limit(step: str, seconds: float) -> Iterator[None]:
    """StepTimeout in the main thread after `seconds`; if the thread does not react, the process ends with the same exit code.

    Ending it is safe at any moment: the next run continues as after a crash. Outside the main thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    why = (
        f"Step {step} took longer than {seconds:g} s (STEP_TIMEOUT). Nothing was deleted; find out what it waits for (log, Ollama, disk, "
        "network), then run the night again: it continues with that step."
    )

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        raise StepTimeout(why)

    def end_process() -> None:
        sys.stderr.write(f"{why}\n")
        sys.stderr.flush()
        os._exit(StepTimeout.exit_code)

    # Python runs it between two bytecode instructions, or during a system call.
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    end = threading.Timer(seconds + GRACE_SECONDS, end_process)
    end.daemon = True
    end.start()
    try:
        yield
    finally:
        end.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # one that is already pending would end the process
