"""A question whether Claude may use a tool, and its decision, as they cross the wire between dispatcher and bot; and the record of both.

Both are signed for their id, which is new for each question, and name their chat: neither can be changed, moved to another question or another
chat, or used again.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from redis.asyncio import Redis

from dispatcher.features.approvals import keys
from shared.text.format import cut
from shared.text.logs import Logger
from shared.turns.records import RecordRefused
from shared.turns.signed import SignedRecord

log = Logger()

#: The longest input of a tool that a question shows (UTF-16 units: it has to fit into one message), and what a record keeps (characters).
SHOWN_UNITS, KEPT_CHARACTERS = 3_300, 200
#: The longest names of a tool and a person that are shown. Characters.
TOOL_CHARACTERS, NAME_CHARACTERS = 120, 64
#: No question or decision is larger, written as JSON. Bytes.
APPROVAL_BYTES = 64 << 10

#: `nobody`: no answer in time; `stopped`: the dispatcher or the answer ended first; `failed`: it could not be asked, or not be recorded.
Verdict = Literal["allowed", "denied", "nobody", "stopped", "failed"]
#: Letters, marks and symbols that show nothing (Unicode's Default_Ignorable_Code_Point, and the blank of Braille); blanks that hide what follows.
_SHOW_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_BLANKS = re.compile(" {17,}")


@dataclass(frozen=True)
class ToolDecision(SignedRecord):
    """Who decided what; `user_id` and `name` are "" where nobody did."""

    kind = "approval"
    most_bytes = APPROVAL_BYTES
    verdict: Verdict
    chat_id: str
    user_id: str = ""
    name: str = ""


@dataclass(frozen=True)
class ToolQuestion(SignedRecord):
    """`user_id`: who asked Claude, "" if that is not known; `text`: the input as people see it; `ends`: until when it may be answered, POSIX
    seconds; `verdict`: how it ended, "" while it is open, and `who` decided."""

    kind = "approval-question"
    most_bytes = APPROVAL_BYTES
    chat_id: str
    user_id: str
    task_id: str
    tool: str
    text: str
    ends: float
    verdict: str = ""
    who: str = ""


def shown_input(given: dict[str, Any]) -> str | None:
    """A tool's input as JSON, with every character that is not visible as an escape, and many blanks as their number; None if it is too long to be
    shown whole. Nobody is to allow what they have not seen."""
    written = json.dumps(given, ensure_ascii=False, indent=1)
    text = "".join(one if one == "\n" or _is_visible(one) else _escape(one) for one in written)
    text = _BLANKS.sub(lambda run: f"⟨{len(run[0])} blanks⟩", text)
    return text if len(text.encode("utf-16-le", "surrogatepass")) <= 2 * SHOWN_UNITS else None


def kept_input(given: dict[str, Any]) -> tuple[str, str]:
    """(SHA-256 of the input, its short form in one line) for the record."""
    whole = json.dumps(given, sort_keys=True)
    short = "".join(one if _is_visible(one) else _escape(one) for one in json.dumps(given, ensure_ascii=False))
    return hashlib.sha256(whole.encode("ascii")).hexdigest(), cut(short, KEPT_CHARACTERS)


def _is_visible(character: str) -> bool:
    """Letters, marks, numbers, punctuation, symbols and the blank, except what shows nothing."""
    seen = character == " " or unicodedata.category(character)[0] in "LMNPS"
    return seen and not _SHOW_NOTHING.fullmatch(character)


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


# Questions as a bot reads them in Redis, and their answers. An answer is written once: who comes second has no effect.


class ToolQuestions:
    """One per bot. Everything may be repeated."""

    def __init__(self, redis: Redis, secret: str) -> None:
        self._redis, self._secret = redis, secret

    async def questions(self) -> dict[str, ToolQuestion]:
        """Id → question, of all that were asked and not taken back. What the dispatcher has not signed is removed."""
        found = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(keys.OPEN))
        questions = dict[str, ToolQuestion]()
        for name, raw in found.items():
            approval_id = name.decode("utf-8", "replace")
            try:
                questions[approval_id] = ToolQuestion.verified(self._secret, approval_id, raw)
            except RecordRefused as error:
                log.error(
                    "a question about a tool is removed: the dispatcher has not signed it",
                    approval=approval_id,
                    reason=str(error),
                )
                await self._redis.hdel(keys.OPEN, cast(str, name))
        return questions

    async def open(self, approval_id: str) -> ToolQuestion | None:
        """The question of this id, if there is one without an end."""
        question = (await self.questions()).get(approval_id)
        return question if question and not question.verdict else None

    async def answer(self, approval_id: str, decision: ToolDecision) -> bool:
        """Whether this is the decision that counts."""
        raw = decision.to_json(self._secret, approval_id)
        return bool(await self._redis.set(keys.decision(approval_id), raw, nx=True, ex=keys.DECISION_TTL_SECONDS))

    async def answered(self, approval_id: str) -> bool:
        return bool(await self._redis.exists(keys.decision(approval_id)))

    async def drop(self, approval_id: str) -> None:
        """The chat knows how it ended."""
        await self._redis.hdel(keys.OPEN, approval_id)


async def ask_at_terminal(redis: Redis, secret: str, task_id: str, ask: Callable[[str], bool | None]) -> None:
    """Have what is asked for this task allowed or denied by who looks at the terminal."""
    questions = ToolQuestions(redis, secret)
    for approval_id, asked in (await questions.questions()).items():
        if asked.task_id == task_id and not asked.verdict and not await questions.answered(approval_id):
            allowed = ask(f"Claude wants to use {asked.tool}:\n{asked.text}")
            verdict: Verdict = "allowed" if allowed else "denied"
            await questions.answer(approval_id, ToolDecision(verdict, asked.chat_id, "cli", "the terminal"))
