"""`/forget`: messages of this chat are hidden, after a preview and a question.

    /forget WORDS │ last │ task:ID │ today │ all ─ what is meant is read ─ preview ─ "Forget these" ─ hidden, the conversation ends
                                                                  └ kept in Redis for ten minutes under a digest of it, which the button names

Only exactly what was shown is forgotten, and only by the person who was shown it. A command that is carried out twice, after a crash or by a second
press, changes nothing the second time: the tombstone is named by the same digest.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from datetime import time as clock
from typing import TYPE_CHECKING

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.conversation.tag_actions import latest_turns, store_waiting
from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import keep_trying
from dispatcher.queue.chats import ChatRecords
from dispatcher.queue.rights import FORGETTING
from shared.system.faults import crash_point
from shared.text.format import one_line, shorten, time_text
from shared.text.logs import Logger
from shared.text.translations import later, tr, tr_count
from shared.turns.records import RecordRefused, Task
from shared.turns.signed import Keyboard, keyboard, row_of

if TYPE_CHECKING:
    from dispatcher.chat_data.forget.in_chat import ChatSelection

log = Logger()

USAGE = later(
    "I forget messages of this chat after I have shown you which ones, and you have confirmed it:\n"
    "\n"
    "/forget WORDS - the messages that contain these words, and no others\n"
    "/forget last - the last message and its answer\n"
    "/forget today - everything since midnight\n"
    "/forget all - this whole chat, after a second question\n"
    "\n"
    "What I made of these messages (/memory) goes with them. I then stop using them, and start a new conversation. They are hidden, "
    "not erased: the person who runs me can erase them with hmem forget."
)
FORGOTTEN = later("Forgotten: {what}. I no longer use this, and start a new conversation.")
BYTES = later("It is hidden, not erased: the person who runs me can erase the stored bytes with hmem forget.")
NOTHING = later("I found nothing to forget. Nothing was changed.")
EXPIRED = later(
    "This is no longer valid: what I showed you may be forgotten for ten minutes. Please send /forget again."
)
CANCELLED = later("Nothing was forgotten.")
SHORT = later("Please give me at least three letters to look for. /forget explains what else I can forget.")
TOO_MANY = later("These are {count} messages, and I forget at most {most} at once. Use more words, or /forget all.")
#: What a preview says above its messages, by what was asked for; the last one where none is shown.
PREVIEWS = {
    "words": later('To be forgotten: {what} with "{words}", from {first} to {last}.'),
    "last": later("To be forgotten: {what}, the last exchange, from {first} to {last}."),
    "task": later("To be forgotten: {what} of this chat, from {first} to {last}."),
    "today": later("To be forgotten: {what} since midnight, from {first} to {last}."),
    "all": later("To be forgotten: {what} of this chat, from {first} to {last}."),
}
PREVIEW_OF_NOTHING_SHOWN = later("To be forgotten: {what} of this chat.")
#: The shortest text that is looked for, and the longest line of a preview.
SHORTEST, LINE_CHARACTERS = 3, 120

#: The message of a task, below whose answer this is a button.
_TASK = re.compile(r"task:(\S+)\Z")
_CONFIRMED = re.compile(r"(yes|really|no) ([0-9a-f]{16})\Z")


@dataclass(frozen=True)
class ForgetCommand:
    """`explain`; `words`, `last`, `task`, `today`, `all`, which select; `yes`, `really`, `no` with the digest of what was shown."""

    name: str
    text: str = ""


def parse(text: str) -> ForgetCommand:
    """What follows `/forget`. Words in quotation marks are never one of the names."""
    if not text:
        return ForgetCommand("explain")
    if found := _CONFIRMED.match(text):
        return ForgetCommand(found[1], found[2])
    if text.lower() in ("last", "today", "all"):
        return ForgetCommand(text.lower())
    if found := _TASK.match(text):
        return ForgetCommand("task", found[1])
    quoted = re.fullmatch(r'["“„«](.*)["”“»]', text, re.DOTALL)
    return ForgetCommand("words", one_line(quoted[1] if quoted else text))


class ForgetCommands:
    """One per dispatcher."""

    def __init__(self, core: Core, records: ChatRecords) -> None:
        self._core, self._records, self._day, self._zone = core, records, core.day, core.settings.timezone

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        if refusal := self._core.rights.refusal(FORGETTING, task.in_group, task.user_id):
            return CommandReply(refusal)
        command = parse(text)
        if command.name == "explain":
            choice = row_of(
                (tr("The last message"), "/forget last"), (tr("Today"), "/forget today"), (tr("All"), "/forget all")
            )
            return CommandReply(tr(USAGE), buttons=keyboard(choice))
        if command.name in ("yes", "really"):
            return await self._confirmed(task, command, now)
        if command.name == "no":
            await keep_trying(lambda: self._records.drop_selection(command.text, task.chat_id))
            return CommandReply(tr(CANCELLED))
        return await self._shown(task, command, now)

    async def _shown(self, task: Task, command: ForgetCommand, now: float) -> CommandReply:
        """The preview, with the buttons that confirm exactly it."""
        from dispatcher.chat_data.forget.in_chat import MOST_TURNS, ChatSelection, select

        if command.name == "words" and len(command.text) < SHORTEST:
            return CommandReply(tr(SHORT))
        today = datetime.combine(datetime.fromtimestamp(now, self._zone).date(), clock(), self._zone).timestamp()
        asked = ChatSelection(command.name, task.user_id or "", before=now if command.name == "all" else None)
        waiting = await latest_turns(self._core, task)
        found = await asyncio.to_thread(
            lambda: select(
                self._core.settings, self._day, waiting, task.chat_id, asked, words=command.text, since=today
            )
        )
        if not found.messages and not found.memories:
            return CommandReply(tr(NOTHING))
        if len(found.turn_ids) > MOST_TURNS:
            return CommandReply(tr(TOO_MANY).format(count=len(found.turn_ids), most=MOST_TURNS))
        digest = found.digest(task.chat_id)
        await keep_trying(lambda: self._records.keep_selection(digest, task.chat_id, found.to_json()))
        confirm = tr("You can confirm this for ten minutes.")
        if task.origin.chat_type is None:  # of another bot, which shows no buttons
            confirm = tr("To confirm this, send /forget yes {digest} within ten minutes.").format(digest=digest)
        text = f"{self._preview(found, command.text)}\n\n{confirm}"
        return CommandReply(text, buttons=_choice(found, digest))

    def _preview(self, found: ChatSelection, words: str) -> str:
        text = PREVIEWS[found.kind] if found.shown else PREVIEW_OF_NOTHING_SHOWN
        first, last = (time_text(at, self._zone) for at in (found.first, found.last))
        lines = [tr(text).format(what=_what(found), words=shorten(words, LINE_CHARACTERS), first=first, last=last)]
        lines += [
            f"• {time_text(turn.timestamp, self._zone)} {turn.speaker}: {shorten(one_line(turn.content), LINE_CHARACTERS)}"
            for turn in found.shown
        ]
        left = found.messages - len(found.shown)
        lines += [tr("… and {count} more").format(count=left)] if left > 0 else []
        return "\n".join(lines)

    async def _confirmed(self, task: Task, command: ForgetCommand, now: float) -> CommandReply:
        """Forget what was shown under this digest; the whole chat only after a second question."""
        from dispatcher.chat_data.forget.in_chat import ChatSelection

        digest, chat_id = command.text, task.chat_id
        record = await keep_trying(lambda: self._records.selection(digest, chat_id))
        selection = None
        with suppress(RecordRefused):
            selection = ChatSelection.parse(record) if record else None
        if selection is None or selection.digest(chat_id) != digest or selection.user != (task.user_id or ""):
            return CommandReply(tr(EXPIRED))
        if selection.kind == "all" and command.name != "really":
            return _second_question(selection, digest, with_buttons=task.origin.chat_type is not None)
        await store_waiting(self._core, task) if self._day.wanted else None
        await asyncio.to_thread(self._hide, selection, chat_id, now)
        crash_point("answering:forgotten")
        return CommandReply(" ".join([tr(FORGOTTEN).format(what=_what(selection)), tr(BYTES)]), forgotten=True)

    def _hide(self, selection: ChatSelection, chat_id: str, now: float) -> None:
        for tombstone in selection.tombstones(chat_id, now):
            self._day.forgotten.add(tombstone)
            if self._day.wanted:
                self._day.requests.forget_turns(tombstone, selection.before)


def _choice(found: ChatSelection, digest: str) -> Keyboard:
    everything = found.kind == "all"
    label = tr("Forget everything…") if everything else tr("Forget these {count}").format(count=found.messages)
    return keyboard(row_of((label, f"/forget yes {digest}"), (tr("Cancel"), f"/forget no {digest}")))


def _second_question(found: ChatSelection, digest: str, *, with_buttons: bool) -> CommandReply:
    question = tr("Really forget this whole chat, {what}? I will no longer know any of it.").format(what=_what(found))
    if not with_buttons:
        question += " " + tr("To confirm this, send /forget really {digest}.").format(digest=digest)
    yes, no = (tr("Yes, forget everything"), f"/forget really {digest}"), (tr("No"), f"/forget no {digest}")
    return CommandReply(question, buttons=keyboard(row_of(yes, no)))


def _what(found: ChatSelection) -> str:
    """`3 messages, and 1 entry of my memory`: translations have it in the nominative, and other texts quote it."""
    messages = tr_count("{count} message", "{count} messages", found.messages).format(count=found.messages)
    if not found.memories:
        return messages
    entries = tr_count("{count} entry of my memory", "{count} entries of my memory", found.memories)
    return tr("{messages}, and {entries}").format(messages=messages, entries=entries.format(count=found.memories))
