"""Turns to chunks, as pure functions: clean the text, cut a long turn into passages, say what is indexed.

A chunk is a turn or a passage of one: small enough for the embedding model (256 tokens) and for a line in the prompt, and never the
middle of a sentence where the text has sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from zoneinfo import ZoneInfo

from shared.text.format import cut, day_text, one_line, shorten
from shared.turns.chunk import Chunk
from shared.turns.media import DOCUMENT, LABEL_CHARACTERS, Media
from shared.turns.message_origin import NOWHERE, OF_A_FILE, Forward, Origin
from shared.turns.origin_words import author_of, said_by
from shared.turns.records import Turn
from shared.turns.speakers import is_named

#: Raise it when the same turn would give other chunks, or other terms of them: every release records it.
CHUNKER_VERSION = 8

#: Longest chunk, in characters: about 225 tokens of English, so that the indexed text with its label stays under 256.
PASSAGE_CHARACTERS = 900
#: How much of the message that a turn replies to its first chunk carries, if there is room for so much at least beside its own words. Characters.
QUOTE_CHARACTERS, SHORTEST_QUOTE = 160, 40

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffd\ud800-\udfff]")
#: Runs of encoded characters, also wrapped into lines of equal kind; `_blob_note` decides whether they are data.
_ENCODED = re.compile(
    r"(?:data:[\w/+.-]{1,100};base64,)?[A-Za-z0-9+/_-]{60,}(?:\n[A-Za-z0-9+/_-]{60,})*(?:\n[A-Za-z0-9+/_-]{1,80}={1,2}(?=\n|\Z)|={0,2})"
)
#: Shorter ones are keys and hashes that people ask for.
SHORTEST_BLOB_CHARACTERS = 200
_HASHES = re.compile(r"(?:[0-9a-fA-F]{60,130}\n)*[0-9a-fA-F]{60,130}")
#: Code from its fence to the next, or to the end, as every second part of a `split`.
FENCED = re.compile(r"^[ \t]*(```[^\n]*\n.*?(?:^[ \t]*```[ \t]*$|\Z))", re.MULTILINE | re.DOTALL)
_LINE_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_BLANKS = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r"\n\s*\n\s*")
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|(?<=[.!?…。！？][\"')\]”’»])\s+")


def clean(text: str) -> str:
    """Text without what nobody searches for: ANSI codes, control characters, encoded blobs, repeated blank space. Code in fences keeps its blanks."""
    text = _ANSI.sub("", _LINE_BREAKS.sub("\n", text))
    text = _CONTROL.sub("", text)
    text = _ENCODED.sub(_blob_note, text)
    parts = FENCED.split(text)
    parts[::2] = [_EMPTY_LINES.sub("\n\n", _BLANKS.sub(" ", part)) for part in parts[::2]]
    return "".join(parts).strip()


def _blob_note(match: re.Match[str]) -> str:
    run = match[0]
    # A long word of letters alone or of few characters, or a list of hashes, is not encoded data.
    mixed = re.search(r"[0-9]", run) and re.search(r"[A-Za-z]", run) and len(set(run)) >= 12
    if len(run) < SHORTEST_BLOB_CHARACTERS or not mixed or _HASHES.fullmatch(run):
        return run
    return f"[{len(run)} characters of encoded data]"


def passages(text: str, limit: int = PASSAGE_CHARACTERS) -> list[str]:
    """Parts of at most `limit` characters that together are the text, cut between paragraphs, else sentences, else words."""
    if len(text) <= limit:
        return [text] if text else []
    for splitter, joiner in ((_paragraphs, "\n\n"), (_by("\n"), "\n"), (sentences, " "), (str.split, " ")):
        pieces = splitter(text)
        if len(pieces) > 1:
            return _pack(pieces, joiner, limit)
    parts = list[str]()
    while text:
        parts.append(cut(text, limit))
        text = text[len(parts[-1]) :]
    return parts


def _paragraphs(text: str) -> list[str]:
    """Its paragraphs; code in fences is one."""
    parts = enumerate(FENCED.split(text))
    return [one.strip("\n") for number, part in parts for one in ([part] if number % 2 else _by("\n\n")(part))]


def _by(mark: str) -> Callable[[str], list[str]]:
    return lambda text: [piece for piece in text.split(mark) if piece.strip()]


def sentences(text: str) -> list[str]:
    """The sentences of a text, or the text where it has no sentence borders."""
    return [piece for piece in _SENTENCE.split(text) if piece.strip()]


def _pack(pieces: list[str], joiner: str, limit: int) -> list[str]:
    """Fill passages with whole pieces; a piece that is too long by itself is cut at the next finer border."""
    packed: list[str] = []
    for piece in pieces:
        for part in passages(piece, limit):
            if packed and len(packed[-1]) + len(joiner) + len(part) <= limit:
                packed[-1] += joiner + part
            else:
                packed.append(part)
    return packed


def chunks_of(turn: Turn) -> list[Chunk]:
    """The chunks of one turn, then those of the documents that came with it; none if nothing readable is left of it."""
    said = passages(clean(turn.remembered))
    parts = [
        (part, _origin(turn.origin, room=PASSAGE_CHARACTERS - len(part), first=number == 1))
        for number, part in enumerate(said, start=1)
    ]
    parts += [part for one in turn.media if one.kind == DOCUMENT for part in _of_document(one, turn.origin)]
    return [
        Chunk(
            chunk_id=f"{turn.turn_id}#{number}",
            chat_id=turn.chat_id,
            exchange=turn.exchange,
            turn_ids=(turn.turn_id,),
            role=turn.role,
            speaker=cut(one_line(clean(turn.speaker)), 80) or turn.role,
            text=part,
            started_at=turn.timestamp,
            ended_at=turn.timestamp,
            passage=number,
            passages=len(parts),
            user_id=turn.user_id,
            origin=origin,
        )
        for number, (part, origin) in enumerate(parts, start=1)
    ]


def _of_document(document: Media, origin: Origin) -> list[tuple[str, Origin]]:
    """(passage, whose words it holds) of a document's text; none if all of it stands in the label of its turn."""
    text = clean(document.text)
    if len(text) <= LABEL_CHARACTERS and not document.summary:
        return []
    by = f", forwarded from {_name(origin.forward.name) or 'somebody unnamed'}" if origin.forward else ""
    name = f"{_name(document.name) or 'document'}{by}"
    source = Origin(forward=Forward(name, OF_A_FILE))
    return [(part, source) for part in passages(text)]


def _origin(origin: Origin, *, room: int, first: bool) -> Origin:
    """What of a turn's origin its chunk carries: whose words a forward holds, and of the first chunk shortly what it replies to."""
    forward, quote = origin.forward, origin.quote
    if forward is None and quote is None:
        return NOWHERE
    if forward:
        forward = replace(forward, name=_name(forward.name), date=None)
    if quote:
        room = min(room, QUOTE_CHARACTERS)
        text = shorten(one_line(clean(quote.text)), room) if first and room >= SHORTEST_QUOTE else ""
        name, by = _name(quote.name), _name(quote.forwarded_from)
        quote = replace(quote, text=text, attachment=None, name=name, forwarded_from=by) if text else None
    return Origin(forward=forward, quote=quote)


def _name(name: str | None) -> str | None:
    return cut(one_line(clean(name)), 80) or None if name else None


def indexed_text(chunk: Chunk, zone: ZoneInfo) -> str:
    """What is searched by words: with speaker and date ahead, and what it replies to."""
    return f"{said_by(chunk.speaker, chunk.origin)}, {day_text(chunk.started_at, zone)}{_replied(chunk)}: {chunk.text}"


def embedded_text(chunk: Chunk) -> str:
    """What is searched by meaning: a name ahead, since questions name people, and what it replies to. "user" and a date ahead of a short text
    weigh as much as its words, and are in another language: docs/measurements.md."""
    who, ahead = said_by(chunk.speaker, chunk.origin), _replied(chunk)
    if who != chunk.speaker or is_named(chunk.role, chunk.speaker):
        ahead = f"{who}{ahead}"
    return f"{ahead.removeprefix(', ')}: {chunk.text}" if ahead else chunk.text


def _replied(chunk: Chunk) -> str:
    quote = chunk.origin.quote
    return f", replying to {author_of(quote)}: {quote.text}" if quote else ""
