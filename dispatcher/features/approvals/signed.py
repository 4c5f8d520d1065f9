"""A question whether Claude may use a tool, and its decision, as they cross the wire between dispatcher and bot; and the record of both.

Both are signed for their id, which is new for each question, and name their chat: neither can be changed, moved to another question or another
chat, or used again.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass, replace
from typing import Any, Literal

from shared.text.format import cut
from shared.turns.signed.records import SignedRecord

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

    def decided(self, decision: ToolDecision) -> ToolQuestion:
        return replace(self, verdict=decision.verdict, who=decision.name)


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
    """Letters, marks, numbers, punctuation, symbols and the blank: of these, without those that show nothing."""
    seen = character == " " or unicodedata.category(character)[0] in "LMNPS"
    return seen and not _SHOW_NOTHING.fullmatch(character)


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
