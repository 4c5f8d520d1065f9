"""`/memory changes`: what nights have changed and propose, with buttons that take it back, or agree.

/memory changes [NIGHT] · changes undo N · changes undo night NIGHT · changes yes|no NIGHT N
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.hooks import Core
from dispatcher.chat_data.hooks import Panel, PanelEntry
from dispatcher.features.dream.changes import ShownChange, all_changes, changes_made
from dispatcher.features.dream.putting_in_order import Dreaming
from dispatcher.features.dream.records import decide
from shared.text.format import date_text, one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import date_at
from shared.turns.records import Task
from shared.turns.signed.results import keyboard, row_of

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.day.memory import DayMemory

USAGE = later(
    "/memory changes shows what the last nights have changed of my notes, and what they propose\n"
    "/memory changes undo N takes back the change that made note N; /memory changes undo night N takes back a whole night\n"
    "/memory changes yes NIGHT N agrees to a proposal, /memory changes no NIGHT N declines it"
)
NOTHING = later("No night has changed anything of my notes.")
DECIDING = later("In a group only an owner may decide about changes of my notes.")
TAKEN_BACK = later("Taken back: {numbers}.")
NOTHING_TO_TAKE_BACK = later("There is no such change.")
AGREED, DECLINED = later("Done."), later("Declined.")
NOT_CARRIED_OUT = later("I did not change it: {reason}.")
#: Changes in one message, and characters of a quoted text.
MOST_SHOWN, QUOTED = 6, 200
_REQUEST = re.compile(
    r"undo (?P<undo>[0-9]{1,9})|undo night (?P<night>[0-9]{1,9})|(?P<word>yes|no) (?P<of>[0-9]{1,9}) (?P<number>[0-9]{1,9})"
)


class ChangesCommand:
    def __init__(self, core: Core, dreaming: Dreaming) -> None:
        self._core, self._dreaming = core, dreaming

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        words = " ".join(text.lower().split())
        if not words or words.isdecimal():
            return await asyncio.to_thread(self._shown, task, int(words[:9]) if words else None, "")
        if refusal := self._core.rights.refusal(DECIDING, task.in_group, task.user_id):
            return CommandReply(refusal, error=True)
        said = await asyncio.to_thread(act, self._dreaming, self._core.background, task, words)
        if said is None:
            return CommandReply(tr(USAGE), error=True)
        return await asyncio.to_thread(self._shown, task, None, said)

    def _shown(self, task: Task, night: int | None, said: str) -> CommandReply:
        found = all_changes(self._dreaming, self._core.background, task.chat_id, night)
        zone, shown = self._core.day.zone_of(task.chat_id), found[:MOST_SHOWN]
        if not found:
            return CommandReply(said or tr(NOTHING))
        parts = [change_text(one, lambda at: date_at(at, zone)) for one in shown]
        if len(found) > len(shown):
            parts.append(tr("and {count} more").format(count=len(found) - len(shown)))
        rows = [row_of(*((label, f"/memory changes {words}") for label, words in actions_of(one))) for one in shown]
        nights = sorted({one.night for one in shown if not one.proposed})
        whole = [
            (tr("Undo all of night {night}").format(night=run), f"/memory changes undo night {run}")
            for run in nights[-1:]
        ]
        allowed = not self._core.rights.refusal(DECIDING, task.in_group, task.user_id)
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
    entries = [PanelEntry(change_text(one, lambda at: date_text(at, zone)), actions_of(one)) for one in found]
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
