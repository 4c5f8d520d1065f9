"""All that is stored of a chat, for the person it belongs to: as files (`hmem export`), or erased, after a preview (`hmem forget`)."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.cli.arguments import Chat, Json, Yes, agreed, connect, given_chat, start_for
from shared.config.settings import Settings
from shared.errors import ForgetIncomplete, InvalidInput, SettingsError
from shared.system.command import ChatCommand, answer, application, go_on_without_reader, print_json, start
from shared.system.files import safe_name
from shared.text.format import counted
from shared.text.times import given_moment

if TYPE_CHECKING:
    from dispatcher.chat_data.forget.journal import Journal
    from dispatcher.chat_data.forget.request import ForgetRequest
    from dispatcher.chat_data.forget.steps import ForgetContext

app = application()

NOTHING_DONE = "Nothing was changed. Run it again with --yes."


@app.command(cls=ChatCommand)
def export(
    chat: Chat = "",
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to create; default: hmem-export-<chat>-<date> in the current directory."),
    ] = None,
    json: Json = False,
) -> None:
    """Export everything that is stored of one chat as readable files: turns, typed memories, summaries. Changes nothing."""
    from dispatcher.chat_data.export.chat import export_chat
    from shared.system.export_folder import default_folder

    settings, chat_id = start_for(chat, rare=True)
    folder = out or default_folder(settings.timezone, safe_name(chat_id))
    with closing(connect(settings)) as client:
        report = export_chat(settings, client, chat_id, folder)
    if json:
        print_json(report | {"out": str(folder.resolve())})
        return
    for note in report["notes"]:
        typer.echo(f"note: {note}", err=True)
    if cleaned := report["sources"]["release"]:
        typer.echo(
            f"note: {counted(cleaned, 'turn is', 'turns are')} given as the release's cleaned text, because the archive is not on this host.",
            err=True,
        )
    memories = counted(report["memories"], "memory", "memories")
    typer.echo(f"{counted(report['turns'], 'turn')}, {memories} and the summaries of chat {chat_id} are in {folder}.")


@app.command()
def forget(
    chat: Annotated[
        str,
        typer.Option(
            help="The whole chat, or the chat to which --turn or --matching is limited; --chat=-100 for a negative one."
        ),
    ] = "",
    before: Annotated[
        str, typer.Option(help="Of the chat only the turns before this time: ISO 8601 or POSIX seconds.")
    ] = "",
    turn: Annotated[
        list[str] | None, typer.Option(help="This turn (TASK:user, TASK:asst, or TASK for both); repeatable.")
    ] = None,
    matching: Annotated[
        str, typer.Option(help="Turns and memories that contain this text; - reads it from standard input.")
    ] = "",
    hidden: Annotated[
        bool,
        typer.Option(
            "--hidden", help="Turns that are only hidden so far: by [FORGET], /memory forget or hmem memory forget."
        ),
    ] = False,
    copy: Annotated[
        list[Path] | None,
        typer.Option(
            help="A directory with a copy of the archive: the receipt is complete once that copy has lost the words, too; repeatable."
        ),
    ] = None,
    yes: Yes = False,
    later: Annotated[bool, typer.Option("--later", help="Leave the archive to the next night.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Finish what is unfinished.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="With --resume: you have checked the places that the scan names.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show what is unfinished, and the receipts.")] = False,
    json: Json = False,
) -> None:
    """Erase a chat, turns or a text permanently: from Redis, the store, Claude's files and the archive; the receipt says what is left."""
    settings = start(children=("night",))
    selection = _hidden(settings, chat) if hidden else _asked(settings, chat, before, turn or [], matching)
    if sum((selection is not None, resume, list_)) != 1 or (hidden and (before or turn or matching)):
        raise InvalidInput(
            "Select what to forget (--chat, --turn, --matching or --hidden), or give --resume or --list alone."
        )
    if selection is not None:
        selection = replace(selection, copies=_directories(copy or []))
    if accept and not resume:
        raise InvalidInput("--accept requires --resume. Check the places that the scan names first.")
    if list_:
        _list(settings, json=json)
        return
    from dispatcher.chat_data.forget.steps import open_context

    with closing(connect(settings)) as client:
        client.ping()
        with open_context(settings, client, lambda text: typer.echo(text, err=True)) as context:
            if selection is None:
                _carry_out(context, None, yes=yes, accept=accept, json=json)
            else:
                begin(context, selection, yes=yes, later=later, json=json)


def _directories(copies: list[Path]) -> tuple[str, ...]:
    for one in copies:
        if not one.is_dir():
            raise InvalidInput(
                f"--copy {one} is not a directory. Name the one that your copy of the archive is in; nothing was changed."
            )
    return tuple(str(one.absolute()) for one in copies)


def _hidden(settings: Settings, chat: str) -> ForgetRequest:
    """The turns of a chat that are hidden but not erased yet."""
    from dispatcher.chat_data.forget.request import ForgetRequest

    if not chat:
        raise InvalidInput("--hidden requires --chat. hmem forget --list shows which chats have hidden turns.")
    chat_id = given_chat(settings, chat, rare=True)
    turns = _only_hidden(settings).get(chat_id)
    if not turns:
        raise InvalidInput(
            f"Chat {chat_id} has no turns that are only hidden. hmem forget --list shows which chats have some."
        )
    return ForgetRequest("turn", chat_id, turn_ids=tuple(sorted(turns)), hidden=True)


def _only_hidden(settings: Settings) -> dict[str, set[str]]:
    """Chat → the ids of such turns."""
    from dispatcher.memory.tombstones import Forgotten

    found: dict[str, set[str]] = {}
    for tombstone in sorted(Forgotten(settings.hmem_state_dir).all(), key=lambda one: one.erase):
        turns = found.setdefault(tombstone.chat_id, set())
        found[tombstone.chat_id] = turns - tombstone.named if tombstone.erase else turns | tombstone.named
    return {chat_id: turns for chat_id, turns in sorted(found.items()) if turns}


def _asked(settings: Settings, chat: str, before: str, turns: list[str], matching: str) -> ForgetRequest | None:
    """The selection, or None if there is none."""
    from dispatcher.chat_data.forget.request import ForgetRequest, asked_text, asked_turns

    chat_id = given_chat(settings, chat, rare=True) if chat else None
    if turns and matching:
        raise InvalidInput("Give --turn or --matching, not both. --chat limits either of them to one chat.")
    if before and (turns or matching or not chat):
        raise InvalidInput("--before requires --chat and works with nothing else. Omit it, or select the chat.")
    if turns:
        return ForgetRequest("turn", chat_id, turn_ids=asked_turns(turns))
    typed = matching != "-"
    if not typed:
        matching = sys.stdin.read().strip()
        if not matching:  # never the whole chat instead
            raise InvalidInput(
                "--matching=- read no text from standard input. Give the text there; nothing was changed."
            )
    if matching:
        return ForgetRequest("matching", chat_id, text=asked_text(matching), typed=typed)
    return ForgetRequest("chat", chat_id, _moment(before, settings)) if chat_id else None


def _moment(given: str, settings: Settings) -> float | None:
    at = given_moment("--before", given or None, settings.timezone)
    if at is not None and at > time.time():
        raise InvalidInput(f"--before {given} is in the future: messages until then would be forgotten too. Omit it.")
    return at


def begin(context: ForgetContext, asked: ForgetRequest, *, yes: bool, later: bool, json: bool) -> None:
    """Show what would be forgotten, ask unless `yes`, and carry it out."""
    from dispatcher.chat_data.forget.archive_part import NightPart
    from dispatcher.chat_data.forget.journal import Journal
    from dispatcher.chat_data.forget.layers.redis_files import not_rewritten
    from dispatcher.chat_data.forget.receipt import as_text, preview, what_stays
    from dispatcher.chat_data.forget.request import Scope
    from dispatcher.chat_data.forget.select import Selector
    from shared.system.byte_scan import Needles

    journal = Journal(Scope(asked, []), Needles(), later=later)
    selector = Selector(context.settings, context.client, context.store, context.tasks)
    selection = selector.select(asked, journal.forget_id)
    if not yes:
        night = NightPart(context.settings, context.client, selection.scope.tombstones, later)
        shown = preview(
            selection, night, what_stays(not_rewritten(context.settings), context.store, asked, context.settings)
        )
        if json:
            print_json({"preview": shown, "done": False})
            return
        if not selection.empty:
            typer.echo(as_text("preview", shown, context.settings.timezone))
    if selection.empty:
        typer.echo("Nothing matches, so there is nothing to forget.", err=True)
        return
    question = "Undo this import?" if asked.kind == "import" else "Forget this permanently?"
    if not agreed(question, yes=yes):
        typer.echo(NOTHING_DONE, err=True)
        return
    if not yes:  # includes messages that came while the question was open
        selection = selector.select(asked, journal.forget_id)
    journal.scope, journal.needles = selection.scope, Needles.of(selection.texts)
    journal.scope.chosen = True
    _carry_out(context, journal, json=json)


def _carry_out(
    context: ForgetContext, new: Journal | None, *, yes: bool = False, accept: bool = False, json: bool
) -> None:
    """Unfinished requests first, then the new one; ForgetIncomplete unless all are complete."""
    from dispatcher.chat_data.forget.journal import unfinished_names
    from dispatcher.chat_data.forget.receipt import as_text
    from dispatcher.chat_data.forget.steps import ForgetRun, carry_out

    if not (new or unfinished_names(context.settings.hmem_state_dir)):
        typer.echo("Nothing is unfinished.", err=True)
        return
    records: list[dict[str, Any]] = []
    go_on_without_reader()
    with context.journals.alone():
        unfinished = _trusted(context, resume=new is None, yes=yes)
        if new:
            context.journals.write(new)  # before the unfinished ones: they may take a night
            unfinished.append(new)
        for journal in unfinished:
            ForgetRun(context, journal).hide()
        for journal in unfinished:
            records.append(carry_out(context, journal, accept=accept))
            if not json:
                typer.echo(as_text("receipt", records[-1], context.settings.timezone))
    if json:
        print_json(records)
    if left := [record["id"] for record in records if not record["complete"]]:
        raise ForgetIncomplete(
            f"These requests to forget are not complete: {', '.join(left)}. The receipt says what is pending; finish it with hmem forget --resume."
        )


def _trusted(context: ForgetContext, *, resume: bool, yes: bool) -> list[Journal]:
    """The unfinished requests that have the owner's signature, and with --resume whichever the owner confirms."""
    found = context.journals.unfinished()
    for journal in found:
        if journal.trusted:
            continue
        typer.echo(
            f"{journal.forget_id} is not signed with the owner's key. It would forget: {journal.summary}.", err=True
        )
        if resume:
            journal.trusted = agreed("Did you start this, and should it continue?", yes=yes)
        if not journal.trusted:
            typer.echo(
                "It is skipped. hmem forget --resume --yes carries it out; if you did not start it, remove its file\n"
                f"{context.journals.folder / journal.forget_id}.json, and find out who wrote it.",
                err=True,
            )
    if resume and found and not any(journal.trusted for journal in found):
        raise ForgetIncomplete(
            "Nothing was carried out: no unfinished request has the owner's signature. Run hmem forget --resume --yes."
        )
    return [journal for journal in found if journal.trusted]


def _list(settings: Settings, *, json: bool) -> None:
    from dispatcher.chat_data.forget.journal import unfinished_names
    from dispatcher.chat_data.forget.receipt import receipts
    from shared.text.format import zoned_text

    unfinished, done = unfinished_names(settings.hmem_state_dir), receipts(settings.hmem_state_dir)
    hidden = list(_only_hidden(settings))
    if json:
        print_json({"unfinished": unfinished, "receipts": done, "hidden": hidden})
        return
    for chat_id in hidden:
        typer.echo(f"Turns of chat {chat_id} are only hidden. hmem forget --hidden --chat={chat_id} erases them.")
    for name in unfinished:
        typer.echo(f"{name}  unfinished: run hmem forget --resume")
    for record in done:
        state = "complete" if record["complete"] else "incomplete"
        typer.echo(
            f"{record['id']}  {zoned_text(record['finished_at'], settings.timezone)}  {state}, chats {', '.join(record['chats'])}"
        )


@app.command("owner-key")
def owner_key(json: Json = False) -> None:
    """The owner's key, with which `hmem forget` signs; created if there is none. Prints the public half for the night."""
    from shared.system.owner_key import key_file, open_signing

    settings = start(directory=None)  # the key belongs to the person who runs this, not to a service
    signing = open_signing(settings)
    if signing.key is None:
        raise SettingsError(f"There is no usable key: {signing.why_not}. {signing.way_on}".strip())
    where = f"The owner's key is in {key_file(settings)}. Keep a copy of it. The night needs only this line in its settings:"
    record = {"file": str(key_file(settings)), "public": signing.key.public}
    answer(record, f'{where}\nOWNER_PUBLIC_KEY = "{signing.key.public}"', json=json)
