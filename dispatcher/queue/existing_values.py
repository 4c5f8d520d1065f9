"""What already exists under the keys that a task will write: its turns, and its result.

Turns that are not its own belong to another task of the same id and stay: this task is refused. An existing result stays if the bot signed it
(at /cancel); an unsigned one is replaced.

Redis cannot verify a signature, and a result that is verified here may change before the script writes. So a script that writes a result returns
the existing one until exactly these bytes have been judged:

    call ─ a result exists ─ judge it ─ call again, with its SHA-1 and the verdict ─ it is still the same: done
                                                                                   └ it is another one: judge that

A program that writes junk faster than it is judged does not hold up the answer: after LOOKS results, any existing one is replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress

from shared.text.logs import Logger
from shared.turns.records import ROLES, RecordRefused, Task, Turn
from shared.turns.signed import RESULT_BYTES, Result
from shared.wire import keys

log = Logger()

#: Results that are judged before any existing one is replaced.
LOOKS = 3
#: Instead of a SHA-1: any existing result.
ANY = "*"
#: SHA-1 of the turns of a task that has none.
NO_TURNS = ("", "")

#: Whether a result is signed for this task.
Signed = Callable[[str, bytes], bool]


def sha1(raw: bytes) -> str:
    """The same as `redis.sha1hex` in the scripts: it identifies the bytes and proves nothing."""
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()


def is_signed(secret: str, task_id: str, raw: bytes) -> bool:
    try:
        Result.verified(secret, task_id, raw)
    except RecordRefused:
        return False
    return True


class ExistingResult:
    """What is known of the existing result of one task. `arguments` follow the script's own: judged, stays, most bytes."""

    def __init__(self, task_id: str, signed: Signed) -> None:
        self._task_id, self._signed, self._looks = task_id, signed, 0
        self.arguments: tuple[str, str, int] = ("", "", RESULT_BYTES)

    def settled(self, answer: object) -> bool:
        """Whether the script did its work; if not, call it again with the new arguments."""
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
    """Whether existing turns under a task's id (question and answer, b"" for none) are its own: the chat and the message are the same."""
    user, asst = (keys.turn(task.task_id, role).encode() for role in ROLES)
    with suppress(RecordRefused):
        question = Turn.parse(user, turns[0])
        chats = {question.chat_id, Turn.parse(asst, turns[1]).chat_id if turns[1] else task.chat_id}
        files = [one.sha256 for one in question.media]  # of a recording the turn has its words, and the task has none
        same = files == [one.sha256 for one in task.media] if task.media else question.content == task.message
        return chats == {task.chat_id} and same
    return False
