"""Dream: the typed memories of the chats with news are put in order by WRITER, if it writes `facts`.

A chat's valid memories, with their numbers, and what was said in it since the last night become one request. What the model answers (with Ollama;
Claude is asked by the dispatcher) goes to the day's host, where code judges each change and carries it out (dispatcher/features/dream): that host
has the memories. A chat is asked about once a night, with the newest turns that fit. A night that erases asks nothing, since a forgetting waits
for it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.incoming import RECORDS, last_events
from nightly.archive.segments import segment_name, stored_records, turn_of
from nightly.night.folder import Night
from nightly.writing.model_texts import ModelTexts, prompt_of
from shared.config.night_settings import Writer
from shared.system.faults import crash_point
from shared.text.format import date_text, fitting, line_size, one_line, shorten
from shared.turns.events import Event, EventKind
from shared.turns.note_changes import Changes, Dream, refused_shape
from shared.turns.records import RecordRefused, Tombstone, Turn
from shared.turns.speakers import label
from shared.wire import keys

#: What one request has at most: turns, and the requests of a night; characters of all notes, of all turns, and of one of either. In a script in which
#: a character is a token, all of it fits into `num_ctx`: a model whose context is too small loses the rules first.
MOST_TURNS, MOST_CHATS = 60, 200
NOTES_CHARACTERS, TURNS_CHARACTERS, ONE_CHARACTERS = 6_500, 6_500, 1_200
#: As repeatable as a model can be; room for the request and its answer.
OPTIONS: dict[str, Any] = {"temperature": 0, "seed": 1, "num_ctx": 16_384, "num_predict": 1_500}


class AskedChat(NamedTuple):
    """What one request is about: the newest of what was said in a chat since the last night, in the order of time, and the newest of its valid
    typed memories, by number."""

    turns: list[Turn]
    notes: list[Event]

    def prompt(self, zone: ZoneInfo) -> str:
        notes = [_note_line(one) for one in self.notes] or ["(none)"]
        lines = [f"[{number}] {_turn_line(turn, zone)}" for number, turn in enumerate(self.turns, 1)]
        return prompt_of("dream.txt.j2", "\n".join(["Notes:", *notes, "", "Messages:", *lines]))

    @property
    def made_from(self) -> list[str]:
        """The turns with which the answer is forgotten: an answer may repeat a note. None, the whole chat, where a note comes from no turn."""
        sources = [(note.state or {}).get("source_turn", "").split() for note in self.notes]
        turns = [turn.turn_id for turn in self.turns]
        return list(dict.fromkeys([*turns, *(one for some in sources for one in some)])) if all(sources) else []


def run(night: Night, _: Path) -> dict[str, Any]:
    writer = night.settings.writer_of("facts")
    if writer is None or night.result("archive").get("erased", {}).get("segments"):
        return {"dreams": 0}
    chats = _chats(night)
    newest_first = sorted(chats, key=lambda chat: -chats[chat].turns[-1].timestamp)
    chosen, postponed = {chat: chats[chat] for chat in newest_first[:MOST_CHATS]}, len(newest_first[MOST_CHATS:])
    if writer.kind == "claude":
        records = ((chat, {"prompt": asked.prompt(night.settings.timezone)}) for chat, asked in chosen.items())
        return {"dreams": _send(night, writer, chosen, records), "postponed": postponed}
    with closing(ModelTexts(night, "dream", writer, OPTIONS, refuse=refused_shape, form=Changes)) as texts:
        sent = _send(night, writer, chosen, _written(night, texts, chosen))
        texts.archive()
        return {"dreams": sent, "postponed": postponed, **texts.result()}


def _written(night: Night, texts: ModelTexts, chats: dict[str, AskedChat]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Chat → the model's answer, of those for which it gave one."""
    for chat, asked in night.report.track(chats.items(), len(chats), "dream"):
        turns = [turn.turn_id for turn in asked.turns]
        if answer := texts.write(chat, chat, turns, asked.prompt(night.settings.timezone), asked.made_from):
            yield chat, {"answer": answer}


def _send(
    night: Night, writer: Writer, chats: dict[str, AskedChat], records: Iterator[tuple[str, dict[str, Any]]]
) -> int:
    """Leave one record a chat for the day's host; how many. A night that is repeated leaves the same ones, and each is carried out once."""
    count = 0
    for chat, more in records:
        dream = Dream(
            run=night.run,
            chat_id=chat,
            model=writer.model,
            at=time.time(),
            propose=night.settings.dream == "propose",
            turns=[turn.turn_id for turn in chats[chat].turns],
            notes=[one.number for one in chats[chat].notes],
            **more,
        )
        night.redis.hsetnx(keys.DREAMS, f"{night.run}:{chat}", dream.model_dump_json())
        crash_point("dream:sent")
        count += 1
    if count:
        night.redis.expire(keys.DREAMS, keys.DREAMS_TTL_SECONDS)
    return count


def _chats(night: Night) -> dict[str, AskedChat]:
    with open_catalog(night) as catalog:
        tombstones = list(catalog.tombstones.values())
        said = _said(night, catalog, tombstones)
    notes = _notes(night, said, tombstones)
    return {chat: AskedChat(turns, notes[chat]) for chat, turns in said.items()}


def _said(night: Night, catalog: Catalog, tombstones: list[Tombstone]) -> dict[str, list[Turn]]:
    """Chat → the newest of its turns that were archived tonight, in the order of time; only chats in which a person has said something."""
    found, here = defaultdict[str, list[Turn]](list), segment_name(night.run)
    for record in stored_records(night.output("export") / RECORDS):
        with suppress(RecordRefused):
            turn = turn_of(record)
            if catalog.segment_of(record.sha256) == here and not any(one.covers(turn) for one in tombstones):
                found[turn.chat_id].append(turn)
                if len(found[turn.chat_id]) > 4 * MOST_TURNS:  # of a large import the newest alone are read
                    found[turn.chat_id] = _newest(found[turn.chat_id])
    read = {
        chat: fitting(
            _newest(turns), TURNS_CHARACTERS, newest=True, size=lambda turn: min(ONE_CHARACTERS, len(turn.content))
        )
        for chat, turns in found.items()
    }
    return {chat: turns for chat, turns in read.items() if any(turn.role == "user" for turn in turns)}


def _newest(turns: list[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda turn: (turn.timestamp, turn.task_id, turn.role != "user"))[-MOST_TURNS:]


def _notes(night: Night, said: dict[str, list[Turn]], tombstones: list[Tombstone]) -> dict[str, list[Event]]:
    """Chat → the newest of its valid typed memories, by number."""
    found = defaultdict[str, list[Event]](list)
    for event in last_events(night.archive_dir):
        if event.kind == EventKind.MEMORY and event.chat_id in said and _is_valid(event, tombstones):
            found[event.chat_id].append(event)
    ordered = {chat: sorted(found[chat], key=lambda one: one.number) for chat in said}
    return {
        chat: fitting(notes, NOTES_CHARACTERS, newest=True, size=lambda one: line_size(_note_line(one)))
        for chat, notes in ordered.items()
    }


def _is_valid(event: Event, tombstones: list[Tombstone]) -> bool:
    state = event.state or {}
    kept = state.get("type") in ("fact", "goal", "preference") and not state.get("superseded_at")
    return kept and not any(event.is_covered_by(one) for one in tombstones)


def _note_line(event: Event) -> str:
    state = event.state or {}
    whose = f" ({state['name']})" if state.get("name") else ""
    return f"{event.number}. {state['type']}{whose}: {shorten(one_line(str(state['text'])), ONE_CHARACTERS)}"


def _turn_line(turn: Turn, zone: ZoneInfo) -> str:
    who, said = label(turn.role, turn.speaker), shorten(one_line(turn.remembered), ONE_CHARACTERS)
    return f"{date_text(turn.timestamp, zone)} {who}: {said}"
