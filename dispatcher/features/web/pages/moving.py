"""Export of a chat as a download, and import of old history: upload, dry run, then the import itself."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import orjson
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from dispatcher.chat_data.export.chat import export_chat
from dispatcher.chat_data.forget.layers.files import EXPORTS
from dispatcher.features.web.requests.asked import Asked, go_to
from dispatcher.features.web.requests.uploads import uploaded
from dispatcher.releases.night_command import NightCommandFailed, night_is_here, read_lines
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.files import make_dir, safe_name

#: Options that the form has.
FIELDS = ("bot", "only", "dates")


@dataclass(frozen=True)
class _Format:
    """`options`: each a field of the form."""

    name: str
    what: str
    options: tuple[str, ...]


def _formats(settings: Settings) -> dict[str, _Format]:
    """What the night's command reads; none where the night is on another host."""
    if not night_is_here(settings):
        return {}
    found = orjson.loads(b"".join(read_lines(settings, "backfill", "--json")))
    return {one["name"]: _Format(one["name"], one["what"], tuple(one["options"])) for one in found}


def export(asked: Asked) -> Response:
    """A ZIP of what `hmem export` writes; removed from the disk when it is sent."""
    chat_id = asked.chat()
    folder = Path(tempfile.mkdtemp(prefix=EXPORTS, dir=make_dir(asked.settings.hmem_state_dir)))
    try:
        inside = folder / f"hmem-export-{safe_name(chat_id)}"
        export_chat(asked.settings, asked.reader.redis, chat_id, inside)
        packed = folder / f"{inside.name}.zip"
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(inside.rglob("*")):
                archive.write(path, path.relative_to(folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    away = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(packed, filename=packed.name, media_type="application/zip", background=away)


def page(asked: Asked) -> Response:
    return asked.page(
        "import.html",
        "Import",
        sources=_formats(asked.settings),
        here=night_is_here(asked.settings),
        uploaded=uploaded(asked.settings, asked.value("file")) if asked.value("file") else None,
        file=asked.value("file"),
        plan=None,
        given={},
    )


def upload(asked: Asked) -> Response:
    """The file is stored by now."""
    if not asked.form.get("file"):
        raise InvalidInput("No file was chosen, or it is empty. Go back and choose one.")
    return go_to("/import", file=asked.form["file"])


def _arguments(asked: Asked) -> list[str]:
    source = _formats(asked.settings).get(asked.value("source"))
    if source is None:
        raise InvalidInput("Choose what kind of file it is.")
    arguments = ["backfill", source.name, str(uploaded(asked.settings, asked.value("file")))]
    for name in ("chat", "since", "until", *(one for one in source.options if one in FIELDS)):
        if value := asked.value(name).strip():
            arguments.append(f"--{name}={value}")
    return arguments


def plan(asked: Asked) -> Response:
    """What would come in; nothing is written."""
    try:
        lines = b"".join(read_lines(asked.settings, *_arguments(asked), "--dry-run")).decode("utf-8", "replace")
    except NightCommandFailed as error:
        raise InvalidInput(error.sentence or str(error)) from error
    return asked.page(
        "import.html",
        "Import: dry run",
        sources=_formats(asked.settings),
        here=True,
        uploaded=uploaded(asked.settings, asked.value("file")),
        file=asked.value("file"),
        plan=lines,
        given={name: asked.value(name) for name in ("source", "chat", "since", "until", "bot", "only", "dates")},
    )


def stage(asked: Asked) -> Response:
    if asked.jobs.running("night") is not None:
        raise InvalidInput("A night is running. Wait until it has ended, then import.")
    job = asked.jobs.night("Import", "night", *_arguments(asked), file=asked.value("file"))
    return go_to(f"/jobs/{job}")
