"""What a person is told of the effect of a tag or of `/memory`. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.text.format import one_line, shorten
from shared.text.translations import later, tr

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.matching import MemoryMatch

#: The longest that a memory is quoted.
QUOTED = 120

SAVED = later("Saved as number {number}: {text}")
SAVED_ALREADY = later("Already saved as number {number}: {text}")
CORRECTED = later("Saved as number {number}: {text}. This replaces number {old}.")
NOTED_FOR = later("Noted; this replaces: {replaced}")
FORGOTTEN = later("Forgotten. I will not mention it again.")
FORGOTTEN_AND_BACK = later("Forgotten. I will not mention it again. What it replaced is valid again: {again}")
DONE = later("Done: {text}")
NO_GOAL_LIKE = later('I found no goal like "{text}", so nothing was changed.')
WHICH_GOAL = later("Which one do you mean? {named}. Please rephrase.")
WHICH_MEMORY = later("Which one do you mean? {named}. Please rephrase, or use /memory forget and the number.")
NOT_SHOWN = later(
    "Number {number} was not among the notes that I had for this answer, so nothing was changed. /memory shows all numbers."
)
REPLACES_NOTHING = later(
    "Noted, but number {number} was not among the notes that I had for this answer, so it replaces nothing."
)
TOLD_BY_ANOTHER = later("Noted, but somebody else told me number {number}, so it replaces nothing.")
NEAR = later("Noted. Number {number} is very similar: {text}")
NO_MEMORY_LIKE_IT = later(
    'I found no memory like "{text}". To hide the messages that say it, send /forget and these words.'
)
NO_NUMBER = later("There is no memory number {number}.")
NO_NUMBER_TO_FORGET = later("There is no memory number {number}. /memory shows the numbers.")
NO_OPEN_GOAL = later("There is no open goal number {number}.")


def quoted(memory: Memory) -> str:
    return shorten(one_line(memory.text), QUOTED)


def saved(memory: Memory, near: Memory | None, *, new: bool) -> str:
    sentence = tr(SAVED if new else SAVED_ALREADY).format(number=memory.number, text=quoted(memory))
    like = tr(NEAR).format(number=near.number, text=quoted(near)) if near else ""
    return f"{sentence}\n{like}" if like else sentence


def is_noted(sentence: str) -> bool:
    """Whether an outcome says that something was noted, so that nobody has to say it once more."""
    return sentence.startswith(tr(NOTED_FOR).partition("{")[0])


def unclear(nothing: str, which: str, asked: str, match: MemoryMatch) -> str:
    if not match.memories:
        return tr(nothing).format(text=shorten(one_line(asked), QUOTED))
    return tr(which).format(named="; ".join(f"{memory.number}. {quoted(memory)}" for memory in match.memories))
