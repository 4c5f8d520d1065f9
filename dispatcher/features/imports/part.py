"""`/import` as the caption of a file: what would come in, and after a yes the import, in a process of its own.

That goes on if this one ends, unless systemd ends it with the unit: what was staged by then comes in with the next night. Then nobody is told.

/import [bot: NAME; as: NAME; only: TITLE; dates: dmy] (with a file) · /import · /import yes|no ID · /import undo IMPORT

The files wait where those of the owner's page do, for a day at most: forgetting anything removes them.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import orjson

from dispatcher.answering.commands.command import CommandReply, Handler
from dispatcher.chat_data.forget.layers.files import UPLOADS, remove_old_uploads
from dispatcher.cli.copies.imports import handing_over, imports, state_of
from dispatcher.releases.night_command import NightCommandFailed, as_ourselves, read_json
from shared.errors import ForgetIncomplete
from shared.hooks import hook
from shared.system.files import make_dir, remove_tree
from shared.system.processes import day_command
from shared.text.format import cut_end, date_text, shorten
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.signed import keyboard, row_of, secret_in, sign_record
from shared.wire import keys
from shared.wire.ids import bot_of
from shared.wire.media import MediaStore

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from shared.turns.media import Media
    from shared.turns.records import Task

log = Logger()

USAGE = later(
    "Send a file with the caption /import, and I show what would come in. If I need to know more, add it: "
    "/import bot: My Bot; as: Anna; only: Family; dates: dmy"
)
FORMATS = later("I can read:")
ONLY_OWNERS = later("Only an owner may import into my memory.")
NOT_THERE = later("The file is no longer there. Please send it again.")
NOTHING_NEW = later("Nothing in it is new to me.")
BEGUN = later("I am importing it and will tell you when it is done.")
UNDOING = later("I am removing it and will tell you when it is done.")
DROPPED = later("I have removed the file.")
#: Of a preview, and of what a command printed at its end.
SHOWN_CHARACTERS = 3_000
#: Imports of the chat that are listed, the newest first.
LISTED = 10
#: The request that belongs to files, beside them, until it is decided.
REQUEST = "request.json"

_OPTION = re.compile(r"\s*(bot|as|only|dates)\s*[:=]\s*(\S.*?)\s*", re.IGNORECASE)
_STRANGE = re.compile(r"[^\w. ()+-]")


class ImportPart:
    """One per dispatcher."""

    takes_files = True

    def __init__(self, core: Core) -> None:
        self._core, self._settings = core, core.settings
        self._folder = core.settings.hmem_state_dir / UPLOADS

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        return {"import": self}

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        if refusal := self._refusal(task):
            return CommandReply(refusal, error=True)
        if task.media:
            options = options_of(text)
            if options is None:
                return CommandReply(tr(USAGE), error=True)
            store = MediaStore(self._core.redis)
            contents = [await store.get(one.sha256) for one in task.media]
            return await asyncio.to_thread(self._preview, task.chat_id, task.media, contents, options)
        word, _, name = text.partition(" ")
        decided = {"yes": self._begin, "no": self._drop, "undo": self._undo}.get(word)
        if decided:
            return await asyncio.to_thread(decided, task.chat_id, name.strip())
        if text:
            return CommandReply(tr(USAGE), error=True)
        return await asyncio.to_thread(self._listing, task.chat_id)

    def _refusal(self, task: Task) -> str:
        rights = self._core.rights
        alone = rights.counts_all(task.chat_id, task.in_group, task.user_id)
        return "" if alone else rights.refusal(ONLY_OWNERS, in_group=True, user=task.user_id)

    def _preview(
        self, chat_id: str, media: Sequence[Media], contents: Sequence[bytes | None], options: list[str]
    ) -> CommandReply:
        remove_old_uploads(self._settings)
        elsewhere = handing_over(self._settings)
        name = uuid4().hex[:12]
        folder = make_dir(make_dir(self._folder) / name)
        files = []
        for number, (one, content) in enumerate(zip(media, contents, strict=True)):
            if content is None:
                remove_tree(folder)
                return CommandReply(tr(NOT_THERE), error=True)
            files.append(
                make_dir(folder / str(number)) / (_STRANGE.sub("_", one.name or "").strip(". ")[-100:] or "file")
            )
            files[-1].write_bytes(content)
        arguments = [*map(str, files), f"--chat={chat_id}", *options]
        try:
            command = ["backfill", *arguments, *elsewhere, "--dry-run", "--json"]
            report = read_json(self._settings, *command, ours=bool(elsewhere))
        except NightCommandFailed as error:
            remove_tree(folder)
            return CommandReply(error.message, error=True)
        if not report["new"]:
            remove_tree(folder)
            return CommandReply(tr(NOTHING_NEW))
        (folder / REQUEST).write_bytes(orjson.dumps({"chat_id": chat_id, "arguments": arguments}))
        text = "\n".join(report["text"][:-1])
        buttons = row_of((tr("Import it"), f"/import yes {name}"), (tr("No"), f"/import no {name}"))
        return CommandReply(_block(shorten(text, SHOWN_CHARACTERS)), buttons=keyboard(buttons))

    def _begin(self, chat_id: str, name: str) -> CommandReply:
        folder, request = self._waiting(chat_id, name)
        if request is None:
            return CommandReply(tr(NOT_THERE), error=True)
        (folder / REQUEST).unlink()
        self._start(chat_id, name, ["import", *request["arguments"], "--yes"], folder)
        return CommandReply(tr(BEGUN))

    def _drop(self, chat_id: str, name: str) -> CommandReply:
        folder, request = self._waiting(chat_id, name)
        if request is not None:
            remove_tree(folder)
        return CommandReply(tr(DROPPED))

    def _undo(self, chat_id: str, name: str) -> CommandReply:
        if name not in [one["import"] for one in self._imports(chat_id) if one["archived"] or one["waiting"]]:
            return CommandReply(tr(USAGE), error=True)
        self._start(chat_id, f"undo-{name}", ["import", "--undo", name, "--yes"], None)
        return CommandReply(tr(UNDOING))

    def _listing(self, chat_id: str) -> CommandReply:
        found = self._imports(chat_id)[:LISTED]
        usage = [tr(USAGE), "", tr(FORMATS), *(f"- {what}" for what in self._formats)]
        if not found:
            return CommandReply("\n".join(usage))
        zone = self._core.day.zone_of(chat_id)
        lines = [
            f"{one['import']}: {one['source']}, {one['turns']}, {', '.join(one['files'])} ({date_text(one['at'], zone)}){state_of(one, zone)}"
            for one in found
        ]
        rows = [
            row_of((" ".join([tr("Undo"), one["import"]]), f"/import undo {one['import']}"))
            for one in found
            if one["archived"] or one["waiting"]
        ]
        return CommandReply("\n".join([*lines, "", *usage]), buttons=keyboard(*rows))

    @cached_property
    def _formats(self) -> list[str]:
        """What the readers of `nightly/imports/readers/` read."""
        return [one["what"] for one in read_json(self._settings, "backfill", "--json", ours=True)]

    def _imports(self, chat_id: str) -> list[dict[str, Any]]:
        """Those of this chat that are not undone, the newest first."""
        return [one for one in reversed(imports(self._settings)) if one["chat_id"] == chat_id and not one["undone"]]

    def _waiting(self, chat_id: str, name: str) -> tuple[Path, dict[str, Any] | None]:
        """The folder, and the request of this chat that waits there for a yes."""
        folder = self._folder / name
        try:
            request = orjson.loads((folder / REQUEST).read_bytes()) if re.fullmatch("[0-9a-f]{12}", name) else {}
        except OSError:
            request = {}
        return folder, request if request.get("chat_id") == chat_id else None

    def _start(self, chat_id: str, name: str, arguments: list[str], folder: Path | None) -> None:
        threading.Thread(target=self._run, args=(chat_id, name, arguments, folder), daemon=True).start()

    def _run(self, chat_id: str, name: str, arguments: list[str], folder: Path | None) -> None:
        """Run an `hmem …`, and tell the chat what it printed at its end. Its night restarts no dispatcher: this one waits for it. It prints into
        files without a name: a pipe would break with this process, and a forgetting removes all folders here."""
        with as_ourselves() as child, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            child["env"] = {**child["env"], "RESTART_COMMAND": ""}
            command = day_command(*arguments)
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, start_new_session=True, check=False, **child
            )  # fmt: skip
            # An undoing that waits for the night of another host ends with a receipt, too.
            failed = done.returncode not in (0, ForgetIncomplete.exit_code)
            output = errors if failed else printed
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()
        if folder is not None:
            remove_tree(folder)
        log.info("an import has ended", name=name, code=done.returncode)
        text = said.rpartition("\n")[2] if failed else cut_end(said.replace(f"{folder}/0/", ""), SHOWN_CHARACTERS)
        outbox = keys.outbox(bot_of(chat_id))
        message = {"id": f"import-{name}", "chat_id": chat_id, "text": text, "created_at": time.time()}
        cast(Any, self._core.background).rpush(outbox, sign_record(secret_in(self._settings), outbox, message))


def _block(text: str) -> str:
    """As it is written: no character of an import formats a message."""
    return "```\n" + text.replace("`", "'") + "\n```"


def options_of(text: str) -> list[str] | None:
    """`bot: My Bot; dates: dmy` as options of the command; None for anything else."""
    found = [_OPTION.fullmatch(part) for part in re.split(r"[;\n]", text) if part.strip()]
    return [f"--{one[1].lower()}={one[2]}" for one in found if one] if all(found) else None
