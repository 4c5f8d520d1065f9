"""`hmem memory`: typed memories for the owner. The same as `/memory` in the chat and on the same store, whether or not a dispatcher runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import typer
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dispatcher.cli.arguments import Chat, Json, Yes, confirm, connect, new_chat, say_notes, start_for
from dispatcher.cli.hooks import memory_commands
from dispatcher.memory.day.requests import owner_task
from dispatcher.memory.store.whose import without_speaker
from dispatcher.memory.typed.pages import as_json
from shared.config.settings import Settings
from shared.config.values import is_person
from shared.errors import HmemError, InvalidInput, SettingsError
from shared.hooks import features
from shared.system.command import ChatCommand, answer, application
from shared.text.format import counted
from shared.text.times import moment
from shared.turns.message_origin import is_group

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.typed.actions import Outcome

app = application("The typed memories of a chat: facts, goals, preferences.")

#: Names under which imported lists give the time of creation; `created_at` is the one that the bot Relay uses.
CREATED = ("created", "created_at", "timestamp")
#: Facts of a file that are embedded and stored in one batch, and how many of the unreadable lines are named.
IMPORTED_AT_ONCE, LINES_NAMED = 250, 10


Number = Annotated[int, typer.Argument(help="Its number, as hmem memory list shows it.")]


@app.command("list", cls=ChatCommand)
def list_(chat: Chat = "", json: Json = False) -> None:
    """What /memory shows: facts, goals with their deadlines, preferences, completed goals."""
    settings, chat_id = start_for(chat)
    with opened_day(settings) as day:
        memories = day.remembering.of_chat(chat_id)
        found = [as_json(memory, memories.superseded_numbers) for memory in memories.shown]
        answer({"chat_id": chat_id, "memories": found}, day.requests.listing(chat_id, time.time()), json=json)


@app.command(cls=ChatCommand)
def add(
    chat: Chat,
    text: Annotated[str, typer.Argument(help="What to store.")],
    kind: Annotated[
        Literal["fact", "goal", "preference"], typer.Option("--type", help="The type of the memory.")
    ] = "fact",
    deadline: Annotated[str, typer.Option(help='Of a goal, in natural language: "next Friday".')] = "",
    importance: Annotated[int, typer.Option(min=1, max=5, help="More important memories are shown first.")] = 3,
    priority: Annotated[int, typer.Option(min=0, max=9, help="Of a goal: 0 is normal, higher is more urgent.")] = 0,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Store a fact, a goal or a preference. If an existing one says the same, its importance is raised instead."""
    (settings, chat_id), now = start_for(chat, new=True), time.time()
    if not text.strip():
        raise InvalidInput("TEXT is empty. Write what to store.")
    more: dict[str, Any] = {"importance": importance}
    if priority:
        if kind != "goal":
            raise InvalidInput(f"A {kind} has no priority. Add --type goal, or omit --priority.")
        more["priority"] = priority
    if deadline:
        from dispatcher.memory.dates.user_dates import goal_deadline

        more["deadline"] = goal_deadline(kind, deadline, now, settings.timezone)
    if not yes and (notes := new_chat(settings, chat_id)):
        confirm(f"{notes[0]} Store it for this new chat?", yes=False)
    with opened_day(settings, vectors=True) as day:
        known = day.memories.count(chat_id)
        outcome = day.acting.add(owner_task(chat_id), text.strip(), now, kind=kind, **more)
        new = day.memories.count(chat_id) > known
    answer({"chat_id": chat_id, "new": new, "said": outcome.say}, outcome.say, json=json)


@app.command(cls=ChatCommand)
def correct(
    chat: Chat, number: Number, text: Annotated[str, typer.Argument(help="What is right.")], json: Json = False
) -> None:
    """Replace a memory by what is right. The earlier one is no longer shown to Claude; the turns that it came from stay."""
    settings, chat_id = start_for(chat)
    if not text.strip():
        raise InvalidInput("TEXT is empty. Write what is right.")
    with opened_day(settings, vectors=True) as day:
        _refuse_unless_there(day, chat_id, number, "memory")
        outcome = day.acting.correct(owner_task(chat_id), number, text.strip(), time.time())
    _report(chat_id, number, outcome, json=json)


@app.command(cls=ChatCommand)
def done(chat: Chat, number: Number, json: Json = False) -> None:
    """Mark a goal as completed."""
    settings, chat_id = start_for(chat)
    with opened_day(settings) as day:
        _refuse_unless_there(day, chat_id, number, "goal")
        outcome = day.acting.done(owner_task(chat_id), number, time.time())
    _report(chat_id, number, outcome, json=json)


@app.command(cls=ChatCommand)
def forget(chat: Chat, number: Number, json: Json = False) -> None:
    """Forget a memory and the turns that it came from: they are no longer recalled, and the next night removes them.

    The current conversation ends, since it may contain what is forgotten.
    """
    from dispatcher.answering.commands.memory import forget_for_owner

    settings, chat_id = start_for(chat)
    with opened_day(settings, vectors=True) as day, closing(connect(settings)) as client:
        _refuse_unless_there(day, chat_id, number, "memory")
        outcome = forget_for_owner(day, client, chat_id, number)
    _report(chat_id, number, outcome, json=json)


@app.command("import", cls=ChatCommand)
def import_(
    chat: Chat,
    file: Annotated[Path, typer.Argument(help="JSONL: texts, or objects with fact, text or content.")],
    json: Json = False,
) -> None:
    """Import memories: a flat list of facts, or a file of hmem export. Known memories stay unchanged, so the import can be repeated.

    What hmem forget erased is not imported again.
    """
    settings, chat_id = start_for(chat, new=True)
    found, refused = _facts(file, settings)
    say_notes(new_chat(settings, chat_id))
    new = 0
    with opened_day(settings, vectors=True) as day:
        facts = _not_forgotten(day, chat_id, found)
        batches = [facts[at : at + IMPORTED_AT_ONCE] for at in range(0, len(facts), IMPORTED_AT_ONCE)]
        with typer.progressbar(batches, label="importing", file=typer.get_text_stream("stderr")) as shown:
            for batch in shown:
                new += _import(day, chat_id, batch)
        _supersede(day, chat_id, facts)
    known, forgotten = len(facts) - new, len(found) - len(facts)
    lines = [{"line": number, "why": why} for number, why in refused]
    counts = {"chat_id": chat_id, "added": new, "known": known, "forgotten": forgotten, "refused": lines}
    left_out = f" Forgotten before, and not imported: {forgotten}." if forgotten else ""
    answer(counts, f"New memories: {new}, already known: {known}.{left_out}", json=json)
    if refused:
        named = "; ".join(f"line {number}: {why}" for number, why in refused[:LINES_NAMED])
        more = f"; and {len(refused) - LINES_NAMED} more" if len(refused) > LINES_NAMED else ""
        raise InvalidInput(
            f"{counted(len(refused), 'line', 'lines')} of {file} cannot be read ({named}{more}). The others are stored; "
            "fix these, then import the file again."
        )


def _import(day: DayMemory, chat_id: str, batch: list[Imported]) -> int:
    from dispatcher.memory.store.memories import MemoryType

    made = []
    rows = [(one, one.columns(in_group=is_group(chat_id))) for one in batch]
    for kind, user in dict.fromkeys((one.kind, more.get("user_id")) for one, more in rows):
        some = [(one, more) for one, more in rows if (one.kind, more.get("user_id")) == (kind, user)]
        entries = [(one.text, one.created and min(max(0.0, one.created), time.time()), more) for one, more in some]
        made += day.remembering.new_ones(chat_id, MemoryType(kind), entries, user)
    if made:
        with day.memories.transaction() as connection:
            for memory in made:
                day.memories.add(memory, connection=connection)
    return len(made)


def _supersede(day: DayMemory, chat_id: str, facts: list[Imported]) -> None:
    """What an export says of what replaced what."""
    stored = {(str(one.type), one.text): one for one in day.remembering.of_chat(chat_id).memories}
    numbered = {fact.number: stored.get((str(fact.kind), fact.text)) for fact in facts if fact.number is not None}
    with day.memories.transaction() as connection:
        for fact in facts:
            old, new = (numbered.get(one or 0) for one in (fact.number, fact.replaced_by))
            if old and new and old.memory_id != new.memory_id:
                at = fact.replaced_at or new.created
                day.memories.supersede(chat_id, old.memory_id, new.memory_id, at, connection=connection)


def _not_forgotten(day: DayMemory, chat_id: str, facts: list[Imported]) -> list[Imported]:
    """Without what hmem forget erased: made from turns that it named, or older than the time before which it erased everything."""
    from dispatcher.memory.tombstones import hidden_by

    ids, before = hidden_by([tombstone for tombstone in day.forgotten.of(chat_id) if tombstone.erase])
    return [
        one
        for one in facts
        if ids.isdisjoint((one.source_turn or "").split()) and (before is None or (one.created or before) >= before)
    ]


Time = Annotated[float | None, BeforeValidator(lambda said, given: moment(said, given.context))]


class Imported(BaseModel):
    """A line of an imported list: a row of hmem export or of another program. Times are POSIX seconds or ISO 8601."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True, coerce_numbers_to_str=True)

    text: str = Field(min_length=1, validation_alias=AliasChoices("fact", "text", "content"))
    kind: Literal["fact", "goal", "completed_goal", "preference"] = Field("fact", validation_alias="type")
    created: Time = Field(None, validation_alias=AliasChoices(*CREATED))
    deadline: Time = None
    completed_at: Time = None
    reminded_at: Time = None
    importance: Annotated[int, Field(ge=1, le=5, strict=True)] | None = None
    priority: Annotated[int, Field(ge=0, le=9, strict=True)] | None = None
    category: str | None = None
    source_turn: str | None = None
    user_id: str | None = None
    name: str | None = Field(None, validation_alias=AliasChoices("speaker", "name"))
    number: int | None = None  # of an export
    replaced_by: int | None = Field(None, validation_alias="superseded_by")  # the number of its successor there
    replaced_at: Time = Field(None, validation_alias="superseded_at")

    def columns(self, *, in_group: bool) -> dict[str, Any]:
        """Further columns of a memory; who said it, if that is a person of a group."""
        given = self.model_dump(
            exclude_none=True, exclude=set("text kind created number replaced_by replaced_at".split())
        )
        return given if in_group and is_person(self.user_id or "") else without_speaker(given)


def _facts(file: Path, settings: Settings) -> tuple[list[Imported], list[tuple[int, str]]]:
    """(the memory of every line, (number, reason) of what cannot be read)."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be read: {error.strerror}. Give a JSONL file with one fact per line."
        ) from error
    found: list[Imported] = []
    refused: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                record = orjson.loads(line)
                record = record if isinstance(record, dict) else {"fact": record}
                given = {name: value for name, value in record.items() if value is not None}
                found.append(Imported.model_validate(given, context=settings.timezone))
            except ValidationError as error:
                refused.append((number, "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())))
            except orjson.JSONDecodeError as error:
                refused.append((number, f"not JSON: {error}"))
    return found, refused


def _refuse_unless_there(day: DayMemory, chat_id: str, number: int, what: str) -> None:
    """InvalidInput if no valid memory, or with `goal` no open goal, has this number."""
    memories = day.remembering.of_chat(chat_id).memories
    if not any(one.number == number and what in ("memory", one.type) for one in memories):
        which = "open goal" if what == "goal" else what
        raise InvalidInput(f"Chat {chat_id} has no {which} number {number}. hmem memory list shows the numbers.")


def _report(chat_id: str, number: int, outcome: Outcome, *, json: bool) -> None:
    record = {"chat_id": chat_id, "number": number, "said": outcome.say, "forgotten_turns": outcome.forgotten}
    answer(record, outcome.say, json=json)


@contextmanager
def opened_day(settings: Settings, *, vectors: bool = False) -> Iterator[DayMemory]:
    """The day's memory; with `vectors`, the embedder and the release are open as well."""
    from dispatcher.memory.day.open_memory import open_memory

    with open_memory(settings) as memory:
        if not memory.day.wanted:
            raise SettingsError("DAY_STORE_URL=none: no memories are stored. Unset it, or set it to a database.")
        if vectors:
            try:
                memory.release()
            except (HmemError, OSError) as error:
                typer.echo(f"note: turns of the release are not searched: {error}", err=True)
            memory.open_vectors()
        yield memory.day


for _entry in features().ask(memory_commands):
    for _one in _entry:
        app.command(_one.name, cls=ChatCommand)(getattr(import_module(_one.module), _one.name))
