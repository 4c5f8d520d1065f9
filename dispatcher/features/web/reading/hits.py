"""Hits of a search as a person reads them: an answer's Markdown as HTML, and the words that were looked for marked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from markupsafe import Markup

from dispatcher.features.web.reading.markdown import WORDS, plain, readable_answers, says
from dispatcher.features.web.reading.talk import turns_of
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.memory.relevance import content_roots
from dispatcher.memory.typed.search import MemoryHit
from shared.errors import HmemError
from shared.search.types import Hit
from shared.text.format import cut_end, shorten
from shared.turns.chunk import Chunk
from shared.turns.chunking import clean
from shared.turns.records import Turn

_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)


def readable_hits(
    memory: OpenedMemory, chat_id: str, rows: Sequence[Hit | MemoryHit], question: str, characters: int
) -> list[Markup]:
    """Those of one chat, each as HTML: of a long one about so many characters around the first of the question's words."""
    wanted = content_roots(question)
    said = {number: row.chunk for number, row in enumerate(rows) if isinstance(row, Hit) and row.chunk.role != "user"}
    turns = _turns(memory, chat_id, [one for one in said.values() if one.passage > 1])
    answers = [f"```\n{one.text}" if _begins_in_code(one, turns) else one.text for one in said.values()]
    shown = dict(zip(said, readable_answers(answers, wanted, characters), strict=True))
    texts = [row.memory.text if isinstance(row, MemoryHit) else row.chunk.text for row in rows]
    return [
        shown[number] if number in shown else plain(around(text, wanted, characters), wanted)
        for number, text in enumerate(texts)
    ]


def around(text: str, wanted: Set[str], characters: int) -> str:
    """Of a long text the part that begins shortly before the first of the words (their roots)."""
    first = next((one.start() for one in WORDS.finditer(text) if says(one[0], wanted)), 0)
    start = max(0, min(first - characters // 4, len(text) - characters))
    return ("… " if start else "") + shorten(cut_end(text, len(text) - start), characters)


def _turns(memory: OpenedMemory, chat_id: str, passages: Sequence[Chunk]) -> Mapping[str, Turn]:
    """The turns of later passages, as far as they can be read."""
    try:
        return turns_of(memory, chat_id, [one.turn_ids[0] for one in passages]) if passages else {}
    except HmemError:
        return {}


def _begins_in_code(passage: Chunk, turns: Mapping[str, Turn]) -> bool:
    """Whether a block of code that began in an earlier passage of the turn goes on in this one."""
    turn = turns.get(passage.turn_ids[0])
    before = clean(turn.remembered).partition(passage.text)[0] if turn else ""
    return len(_FENCE.findall(before)) % 2 == 1
