"""What stands already where a task will write: its turns, and its result.

Turns that are not its own are another task's of the same id, and stay: this one is refused. Of results the bot's own (written at /cancel)
stays, and one that nobody has signed makes way.

Redis cannot verify a signature, and what is verified here may be changed before it is written over. So a script that writes a result hands
back what stands there until that has been judged, byte for byte:

    ask ─ a result stands there ─ judge it ─ ask again, with its SHA-1 and the verdict ─ it is still the same: done
                                                                                       └ it is another one: judge that

Who writes junk faster than it is judged does not hold up the answer: after LOOKS of them whatever stands there is nobody's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

import structlog

from shared.turns.records import RESULT_BYTES, ROLES, RecordRefused, Result, Task, Turn
from shared.wire import keys

log = structlog.get_logger()

#: Results that are judged before whatever stands there makes way.
LOOKS = 3
#: In place of a SHA-1: whatever stands there.
ANY = "*"
#: SHA-1 of the turns of a task of which none stands.
NO_TURNS = ("", "")

#: Whether a result is signed for this task.
Signed = Callable[[str, bytes], bool]


def sha1(raw: bytes) -> str:
    """As `redis.sha1hex` in the scripts: a name for these bytes, not a proof of anything."""
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()


def is_signed(secret: str, task_id: str, raw: bytes) -> bool:
    try:
        Result.verified(secret, task_id, raw)
    except RecordRefused:
        return False
    return True


class ExistingResult:
    """What is known of the result that stands at one task's key. `arguments` follow the script's own: judged, stays, most bytes."""

    def __init__(self, task_id: str, signed: Signed) -> None:
        self._task_id, self._signed, self._looks = task_id, signed, 0
        self.arguments: tuple[str, str, int] = ("", "", RESULT_BYTES)

    def settled(self, answer: object) -> bool:
        """Whether the script did its work; if not, it is to be asked again with the new arguments."""
        if not isinstance(answer, bytes):
            return True
        self._looks += 1
        stays = self._signed(self._task_id, answer)
        if not stays:
            log.warning("an unsigned result is replaced by the answer", task=self._task_id)
        judged = sha1(answer) if stays or self._looks < LOOKS else ANY
        self.arguments = (judged, "1" if stays else "", RESULT_BYTES)
        return False


def named(turns: tuple[bytes, bytes]) -> tuple[str, str]:
    """The SHA-1 of each turn, "" for none."""
    user, asst = (sha1(raw) if raw else "" for raw in turns)
    return user, asst


def are_own(task: Task, turns: tuple[bytes, bytes]) -> bool:
    """Whether turns that stand under a task's id (question and answer, b"" for none) are its own: the chat and the message are the same."""
    user, asst = (keys.turn(task.task_id, role).encode() for role in ROLES)
    with suppress(RecordRefused):
        asked = Turn.parse(user, turns[0])
        chats = {asked.chat_id, Turn.parse(asst, turns[1]).chat_id if turns[1] else task.chat_id}
        return chats == {task.chat_id} and asked.content == task.message
    return False
