"""The child process of LocalWhisper: `python -m … MODEL NAMED LIKELY`, a recording on stdin, `{"text"}` or `{"error", "reason"}` on stdout.

NAMED is the language that is spoken, LIKELY the one where the model itself is not sure; both may be empty.

It may take half of the memory of the dispatcher's unit, and is the first to be ended when memory runs out.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatcher.claude.landlock import give_way

#: Seconds of CPU time that each core may give: more than the time limit of the parent, which may have died.
CPU_SECONDS = 400
#: Least probability of a language that the model has detected.
SURE = 0.5
#: How Python, ctranslate2, onnxruntime and the loader say that there was no memory left to take.
_NO_MEMORY = re.compile(r"MemoryError|bad.alloc|(?:to|cannot) allocate|out of memory", re.IGNORECASE)


def main() -> None:
    model_name, named, likely = sys.argv[1:]
    content = sys.stdin.buffer.read()
    bound()
    try:
        from faster_whisper import WhisperModel  # type: ignore[import-not-found,unused-ignore]
    except (ImportError, MemoryError) as error:
        _failed("package", error)
        return
    try:
        model = WhisperModel(model_name, device="auto", compute_type="default")
    except Exception as error:  # noqa: BLE001 - a wrong name, no network, a damaged file: each of its libraries has errors of its own
        _failed("model", error)
        return
    try:
        segments, found = _heard(model, content, named)
        if likely and not named and found.language_probability < SURE:
            segments, _ = _heard(model, content, likely)
        _say(text=" ".join(segment.text.strip() for segment in segments))
    except Exception as error:  # noqa: BLE001 - what is no recording
        _failed("recording", error)


def bound() -> None:
    """Limits that hold for the rest of this process."""
    give_way(os.getpid())
    memory, seconds = memory_of_unit() // 2, CPU_SECONDS * (os.cpu_count() or 1)
    for what, most in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(what, (most, most))


def memory_of_unit() -> int:
    """Bytes: MemoryMax of the unit or container, or all that this machine has."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no cgroup of version 2; no limit
        own = Path("/proc/self/cgroup").read_text(encoding="ascii").rpartition("::")[2].strip()
        most = min(most, int(Path(f"/sys/fs/cgroup{own}/memory.max").read_text(encoding="ascii")))
    return most


def _heard(model: Any, content: bytes, language: str) -> tuple[Any, Any]:
    """The words, transcribed as they are read, and what is known about the recording."""
    heard: tuple[Any, Any] = model.transcribe(io.BytesIO(content), language=language or None, vad_filter=True)
    return heard


def _failed(what: str, error: Exception) -> None:
    reason = f"{type(error).__name__}: {error}"[:500]
    _say(error="memory" if _NO_MEMORY.search(reason) else what, reason=reason)


def _say(**said: str) -> None:
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
