"""Summarise: one text file a chat, from the whole archive, with absolute dates, bounded."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from nightly.chunk_file import read_chunks
from nightly.extract import Sentence, summarise
from nightly.night import Night
from shared.files import make_dir, write_atomic
from shared.lexical import Chunk
from shared.release import summary_file
from shared.text import date_text

_TEMPLATES = Environment(
    loader=PackageLoader("nightly"),
    undefined=StrictUndefined,
    autoescape=False,
    keep_trailing_newline=True,
)


def run(night: Night, out: Path) -> dict[str, Any]:
    chats: dict[str, list[Chunk]] = {}
    for chunk, _ in read_chunks(night.output("chunk")):
        chats.setdefault(chunk.chat_id, []).append(chunk)
    for chat_id, chunks in night.report.track(chats.items(), len(chats), "summarise"):
        path = summary_file(out, chat_id)
        make_dir(path.parent)
        write_atomic(path, _text(night, chunks).encode("utf-8"))
    return {"summaries": len(chats)}


def _text(night: Night, chunks: list[Chunk]) -> str:
    zone = night.settings.timezone
    chosen, topics = summarise(chunks)
    dates = [date_text(chunk.started_at, zone) for chunk in chunks]

    def day(sentence: Sentence) -> str:
        return date_text(sentence.timestamp, zone)

    picked = [
        {"date": date, "lines": [f"{s.speaker}: {s.text}" for s in group]}
        for date, group in groupby(sorted(chosen, key=day, reverse=True), key=day)
    ]
    turns = len({turn_id for chunk in chunks for turn_id in chunk.turn_ids})
    return _TEMPLATES.get_template("summary.txt.j2").render(
        turns=turns, days=len(set(dates)), first=min(dates), last=max(dates), topics=topics, picked=picked
    )
