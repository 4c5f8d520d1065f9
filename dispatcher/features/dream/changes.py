"""What nights have changed of a chat's memories, and what they propose: as before and after, with the message that says so; and `/memory changes`,
with buttons that take it back, or agree.

/memory changes [NIGHT] · changes undo N · changes undo night NIGHT · changes yes|no NIGHT N
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.hooks import Core
from dispatcher.chat_data.hooks import Panel, PanelEntry
from dispatcher.features.dream import keys
from dispatcher.features.dream.putting_in_order import Dreaming, night_of
from dispatcher.features.dream.records import read_proposed
from shared.text.format import date_text, one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import date_at
from shared.turns.records import Task
from shared.turns.signed import keyboard, row_of

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.day.memory import DayMemory
    from shared.turns.note_changes import Dream
    from shared.turns.records import Turn

#: Messages that are quoted of one change.
MOST_QUOTED = 2


@dataclass(frozen=True)
class ShownChange:
    """A change of a night. `number`: of the memory that it made; of a proposal, of the change in its night. `before`: what it replaced, texts with
    numbers; `deadline`: the last day of what ends, in POSIX seconds; `replaced`: something else took its place since, so it cannot be taken back."""

    night: int
    number: int
    before: Sequence[tuple[int, str]]
    after: str
    deadline: float | None
    because: Sequence[Turn]
    proposed: bool = False
    replaced: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "night": self.night,
            "number": self.number,
            "proposed": self.proposed,
            "before": [{"number": number, "text": text} for number, text in self.before],
            "after": self.after,
            "until": self.deadline,
            "because": [
                {"turn_id": one.turn_id, "said_at": one.timestamp, "text": one.content} for one in self.because
            ],
        }


def all_changes(dreaming: Dreaming, client: Redis, chat_id: str, night: int | None = None) -> list[ShownChange]:
    """Undecided changes first, then the ones that were made."""
    found = [*changes_proposed(dreaming, read_proposed(client, chat_id)), *changes_made(dreaming.day, chat_id)]
    return [one for one in found if night in (None, one.night)]


def changes_made(day: DayMemory, chat_id: str) -> list[ShownChange]:
    """Those that were not taken back, the newest first."""
    known = day.remembering.of_chat(chat_id)
    found = []
    for memory in reversed(known.shown):
        if (run := night_of(memory)) is None:
            continue
        replaced = [one for one in known.shown if one.superseded_by == memory.memory_id]
        taken_over = {turn for one in replaced for turn in one.sources}
        sources = [one for one in memory.sources if one not in taken_over] or memory.sources
        before = [(one.number, one.text) for one in replaced]
        said, gone = _quoted(day, chat_id, sources), memory.memory_id in known.superseded
        found.append(ShownChange(run, memory.number, before, memory.text, memory.deadline, said, replaced=gone))
    return sorted(found, key=lambda one: -one.night)


def changes_proposed(dreaming: Dreaming, dreams: Sequence[Dream]) -> list[ShownChange]:
    """Those that nobody has decided yet."""
    found = []
    for dream in dreams:
        for number, change in dreaming.undecided(dream)[0].items():
            evidence = dreaming.evidence(dream, change)
            before = [(one.number, one.text) for one in evidence.memories]
            _, text, more = dreaming.planned_row(dream, change, evidence)
            said = evidence.turns[:MOST_QUOTED]
            found.append(ShownChange(dream.run, number, before, text, more["deadline"], said, proposed=True))
    return found


def _quoted(day: DayMemory, chat_id: str, turn_ids: Sequence[str]) -> list[Turn]:
    read = day.read_turns(chat_id, turn_ids)
    turns = (read[one] for one in turn_ids if one in read)
    return [turn for turn in turns if not day.forgotten.covers(turn)][:MOST_QUOTED]


USAGE = later(
    "/memory changes shows what the last nights have changed of my notes, and what they propose\n"
    "/memory changes undo N takes back the change that made note N; /memory changes undo night N takes back a whole night\n"
    "/memory changes yes NIGHT N agrees to a proposal, /memory changes no NIGHT N declines it"
)
NOTHING = later("No night has changed my notes.")
DECIDING = later("In a group only an owner may decide about changes of my notes.")
TAKEN_BACK = later("Taken back: {numbers}.")
NOTHING_TO_TAKE_BACK = later("There is no such change.")
NO_PROPOSAL = later("there is no such proposal")
AGREED, DECLINED = later("Done."), later("Declined.")
NOT_CARRIED_OUT = later("I did not change it: {reason}.")
#: Changes in one message, and characters of a quoted text.
MOST_SHOWN, QUOTED = 6, 200
_REQUEST = re.compile(
    r"undo (?P<undo>[0-9]{1,9})|undo night (?P<night>[0-9]{1,9})|(?P<word>yes|no) (?P<of>[0-9]{1,9}) (?P<number>[0-9]{1,9})"
)


def reply(core: Core, dreaming: Dreaming, task: Task, text: str) -> CommandReply:
    """To `/memory changes`. Slow, so it runs in a thread."""
    words, refusal = " ".join(text.lower().split()), core.rights.refusal(DECIDING, task.in_group, task.user_id)
    if not words or words.isdecimal():
        return _shown(core, dreaming, task, int(words[:9]) if words else None, "")
    if refusal:
        return CommandReply(refusal, error=True)
    said = act(dreaming, core.background, task, words)
    return CommandReply(tr(USAGE), error=True) if said is None else _shown(core, dreaming, task, None, said)


def _shown(core: Core, dreaming: Dreaming, task: Task, night: int | None, said: str) -> CommandReply:
    found = all_changes(dreaming, core.background, task.chat_id, night)
    zone, shown = core.day.zone_of(task.chat_id), found[:MOST_SHOWN]
    if not found:
        return CommandReply(said or tr(NOTHING))
    parts = [change_text(one, lambda at: date_at(at, zone)) for one in shown]
    if len(found) > len(shown):
        parts.append(tr("and {count} more").format(count=len(found) - len(shown)))
    rows = [row_of(*((label, f"/memory changes {words}") for label, words in actions_of(one))) for one in shown]
    nights = sorted({one.night for one in shown if not one.proposed})
    whole = [
        (tr("Undo all of night {night}").format(night=run), f"/memory changes undo night {run}") for run in nights[-1:]
    ]
    allowed = not core.rights.refusal(DECIDING, task.in_group, task.user_id)
    buttons = keyboard(*rows, row_of(*whole)) if allowed else ()
    return CommandReply("\n\n".join(filter(None, [said, *parts])), buttons=buttons)


def act(dreaming: Dreaming, client: Redis, task: Task, words: str) -> str | None:
    """Do what the words ask for (see above); a sentence about it, None for other words."""
    asked = _REQUEST.fullmatch(words)
    if asked is None:
        return None
    if asked["word"]:
        agreed = asked["word"] == "yes"
        reason = decide(client, dreaming, task.chat_id, int(asked["of"]), int(asked["number"]), agreed=agreed)
        return tr(NOT_CARRIED_OUT).format(reason=tr(reason)) if reason else tr(AGREED if agreed else DECLINED)
    night = int(asked["night"] or 0)
    made = [one.number for one in changes_made(dreaming.day, task.chat_id) if night == one.night]
    done = dreaming.take_back(task, made or [int(asked["undo"] or 0)])
    return tr(TAKEN_BACK).format(numbers=", ".join(map(str, done))) if done else tr(NOTHING_TO_TAKE_BACK)


def decide(client: Redis, dreaming: Dreaming, chat_id: str, run: int, number: int, *, agreed: bool) -> str:
    """Carry out a proposal, or drop it; why it could not be carried out, "" if it was. The last one of a night takes the record with it."""
    dream = next((one for one in read_proposed(client, chat_id) if one.run == run), None)
    change = dreaming.undecided(dream)[0].get(number) if dream else None
    if dream is None or change is None:
        return NO_PROPOSAL
    reason = dreaming.carry_out_one(dream, number, change) if agreed else ""
    if not agreed:
        dreaming.decline(dream, number)
    if not dreaming.undecided(dream)[0]:
        client.hdel(keys.PROPOSED, f"{run}:{chat_id}")
    return reason


def actions_of(one: ShownChange) -> list[tuple[str, str]]:
    """What can be done about a change: (label, words for `act`)."""
    if not one.proposed:
        return [] if one.replaced else [(tr("Undo {number}").format(number=one.number), f"undo {one.number}")]
    return [
        (tr("Yes: {number}").format(number=one.number), f"yes {one.night} {one.number}"),
        (tr("No: {number}").format(number=one.number), f"no {one.night} {one.number}"),
    ]


def panel_of(day: DayMemory, client: Redis, chat_id: str) -> Panel:
    """The changes on the owner's page."""
    found, zone = all_changes(Dreaming(day), client, chat_id), day.zone_of(chat_id)
    entries = [
        PanelEntry(change_text(one, lambda at: date_text(at, zone)), actions_of(one), 0 if one.proposed else one.number)
        for one in found
    ]
    return Panel("Changed by nights", entries)


def change_text(one: ShownChange, day: Callable[[float], str]) -> str:
    """A change as before, after and why; `day` writes a time."""
    title = tr("Night {night} proposes ({number}):") if one.proposed else tr("Night {night}, note {number}:")
    lines = [title.format(night=one.night, number=one.number)]
    lines += [tr("− {number}. {text}").format(number=number, text=_short(text)) for number, text in one.before]
    until = tr("until {day}").format(day=day(one.deadline)) if one.deadline is not None else ""
    lines.append(f"+ {_short(one.after)}" + (f" ({until})" if until else ""))
    lines += [
        tr("because on {day} {name} said: {text}").format(
            day=day(turn.timestamp), name=turn.speaker, text=_short(turn.content)
        )
        for turn in one.because
    ]
    return "\n".join(lines)


def _short(text: str) -> str:
    return shorten(one_line(text), QUOTED)
