"""The child process that reads a document: `python -m … PAGES CHARACTERS SECONDS`, the file on stdin, one JSON object on stdout.

    {"form", "text", "characters", "pages"}    what it is, its text (cut), how long the text is, and of a PDF the number of pages
    {"refused": reason}                        reason: a key of REFUSALS in conversion.py

The file may be made to harm: so this process has limits of memory and time, no network, starts no program and writes nothing (confine), and the
parent has put it behind Landlock. The libraries are imported after that (readers.py).
"""

from __future__ import annotations

import ctypes
import json
import resource
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from dispatcher.features.media.documents.readers import NotConverted, TimeUp, read

#: Memory that this process may have for itself: it and a transcript (whisper_child.py), one of each at a time, fit into the MemoryMax of the
#: dispatcher's unit beside it. Its address space, most of which the libraries for office files take. Bytes.
MEMORY_BYTES, ADDRESS_BYTES = 1 << 30, 3 << 30
#: Seconds of CPU time beyond the time limit, for a library that lets no signal in.
CPU_SLACK_SECONDS = 5
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
#: What no reader of a document does: reported to the audit hook by Python itself.
_FORBIDDEN = (
    "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn",
    "os.spawn", "os.fork",
    "os.forkpty", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.", "ctypes.dlopen/after",
    "urllib.Request", "webbrowser.open", "ftplib.", "http.client.connect", "sqlite3.connect",
)  # fmt: skip


def main() -> None:
    pages, characters, seconds = (int(one) for one in sys.argv[1:4])
    content = sys.stdin.buffer.read()
    confine(seconds)
    try:
        said: dict[str, object] = read(content, pages, characters)
    except NotConverted as error:
        said = {"refused": str(error)}
    except TimeUp:
        said = {"refused": "time"}
    except (MemoryError, RecursionError):
        said = {"refused": "memory"}
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]  # none: the time was up while an extension was loaded
        said = {"refused": "package", "reason": missing} if missing else {"refused": "time"}
    except Exception as error:  # noqa: BLE001 - each library has errors of its own for what is damaged
        said = {"refused": "damaged", "reason": type(error).__name__}
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write(json.dumps(said))


def confine(seconds: int) -> None:
    """Limits that hold for the rest of this process."""
    for what, most in (
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_AS, ADDRESS_BYTES),
        (resource.RLIMIT_CPU, seconds + CPU_SLACK_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # a lower one is set already
            resource.setrlimit(what, (most, most))
    ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)  # where the kernel lets us: no network at all
    sys.addaudithook(_watch)
    signal.signal(signal.SIGALRM, _time_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _time_up(*_: object) -> NoReturn:
    raise TimeUp


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(_FORBIDDEN):
        raise PermissionError(event)
    if event == "open" and len(arguments) > 1 and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise PermissionError(event)


if __name__ == "__main__":
    main()
