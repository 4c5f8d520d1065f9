"""Export of a chat as a download, and import of old history: upload, dry run, the import itself, and taking it back."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from dispatcher.chat_data.export.chat import export_chat
from dispatcher.chat_data.forget.layers.files import EXPORTS
from dispatcher.cli.arguments import given_chat
from dispatcher.cli.copies.imports import handing_over, imports, preview_text
from dispatcher.features.web.reading.chats import name_of
from dispatcher.features.web.requests.asked import Asked, go_to, one_at_a_time
from dispatcher.features.web.requests.uploads import uploaded
from dispatcher.releases.night_command import NightCommandFailed, read_json
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.files import make_dir, safe_name

#: Options that the form has.
FIELDS = ("bot", "as", "only", "dates")
#: Held while an export is made.
EXPORTING = threading.Lock()


def _formats(settings: Settings) -> dict[str, dict[str, Any]]:
    """What the night's command reads (name, what, options, each a field of the form); none where the night is on another host."""
    found = [] if handing_over(settings) else read_json(settings, "backfill", "--json")
    return {one["name"]: one for one in found}


def export(asked: Asked) -> Response:
    """A ZIP of what `hmem export` writes; removed from the disk when it is sent. InvalidInput while another is being made."""
    chat_id = asked.chat()
    place = make_dir(asked.settings.hmem_state_dir)
    with one_at_a_time(EXPORTING, "export"), ExitStack() as left:
        folder = Path(left.enter_context(TemporaryDirectory(prefix=EXPORTS, dir=place, ignore_cleanup_errors=True)))
        inside = folder / f"hmem-export-{safe_name(chat_id)}"
        export_chat(asked.settings, asked.redis, chat_id, inside)
        packed = Path(shutil.make_archive(str(inside), "zip", folder, inside.name))
        away = BackgroundTask(left.pop_all().close)
    return FileResponse(packed, filename=packed.name, media_type="application/zip", background=away)


def page(asked: Asked, title: str = "Import", plan: str = "", given: Mapping[str, str] | None = None) -> Response:
    """`plan`: what would come in, `given`: as the form for that said."""
    listed = imports(asked.settings) if asked.value("list") else None  # reads the whole archive: after the rest
    with asked.memory() as memory:
        names = {chat_id: name_of(memory, chat_id) for chat_id in {one["chat_id"] for one in listed or ()}}
    if asked.in_part:
        return asked.page("import_list.html", listed=listed, names=names)
    file, here = asked.value("file"), not handing_over(asked.settings)
    there, sources = uploaded(asked.settings, file) if file else None, _formats(asked.settings)
    return asked.page(
        "import.html",
        title,
        sources=sources,
        here=here,
        uploaded=there,
        file=file,
        plan=plan,
        given=given or {},
        listed=listed,
        names=names,
    )


def upload(asked: Asked) -> Response:
    """The file is stored by now."""
    return go_to("/import", file=asked.wanted("file", "No file was chosen, or it is empty. Go back and choose one."))


def _arguments(asked: Asked) -> list[str]:
    """Without a source the night's command recognises the file."""
    chosen, formats = asked.value("source"), _formats(asked.settings)
    if chosen and chosen not in formats:
        raise InvalidInput("Choose what kind of file it is.")
    path = str(uploaded(asked.settings, asked.value("file")))
    arguments = ["backfill", chosen, path] if chosen else ["backfill", path]
    options = formats[chosen]["options"] if chosen else FIELDS
    for name in ("chat", "since", "until", *(one for one in FIELDS if one in options)):
        if value := asked.value(name).strip():
            value = given_chat(asked.settings, value, new=True) if name == "chat" else value
            arguments.append(f"--{name}={value}")
    return arguments


def plan(asked: Asked) -> Response:
    """What would come in; nothing is written."""
    try:
        report = read_json(asked.settings, *_arguments(asked), "--dry-run", "--json")
    except NightCommandFailed as error:
        raise InvalidInput(error.message or str(error)) from error
    given = {"source": report["source"], **{name: asked.value(name) for name in ("chat", "since", "until", *FIELDS)}}
    return page(asked, "Import: preview", preview_text(asked.settings, report), given)


def stage(asked: Asked) -> Response:
    if asked.jobs.running("night") is not None:
        raise InvalidInput("A night is running. Wait until it has ended, then import.")
    job = asked.jobs.night("Import", *_arguments(asked), file=uploaded(asked.settings, asked.value("file")))
    return go_to(f"/jobs/{job}")


def undo(asked: Asked) -> Response:
    name = asked.wanted("import", "No import was named. Go back and choose one.")
    asked.wanted("sure", "Nothing was taken out: the box was not ticked. Go back and tick it.")
    return go_to(f"/jobs/{asked.jobs.day('Undo an import', 'forget', 'import', '--undo', name, '--yes')}")
