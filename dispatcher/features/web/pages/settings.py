"""*Settings*: by subject first what people touch, the rest folded, secrets masked; what no link should open is only shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, NotShown, go_to
from shared.config import sources
from shared.config.settings import setting_names, settings_from
from shared.errors import InvalidInput, SettingsError
from shared.system.files import Modes, locked_dir, write_atomic

MASKED = "•••••• (set, not shown)"
#: Subject → the settings that people touch first. One of a feature that was taken out is left out.
SUBJECTS = {
    "The bot": "TELEGRAM_BOT_TOKEN ALLOWED_CHATS OWNERS CHAT_TIMEZONE STREAM DAILY_LIMIT SCHEDULE_LIMIT",
    "What is recalled": "MEMORY_TOKENS MEMORY_SUMMARY MEMORY_BACKEND MEMORY_MCP KEEP_MEDIA SESSION_MODE SESSION_TOKENS",
    "The night": "NIGHT_CRON WRITER WRITES DREAM RELEASES_KEPT ARCHIVE_MIRROR",
    "Reports": "REPORT_CHAT REPORT_AT HEARTBEAT_URL",
    "Tools and files": "CLAUDE_ALLOWED_TOOLS CHAT_TOOLS APPROVE_TOOLS TRANSCRIBE_URL SEND_FILES",
    "This page": "WEB_ORIGIN WEB_PROXY",
}

#: Those that a link could be misused for: who may ask, what tools may do, where data goes, what it costs, and who sees this page.
ONLY_SHOWN = frozenset(
    "TELEGRAM_BOT_TOKEN ALLOWED_CHATS OWNERS REPORT_CHAT ARCHIVE_MIRROR HEARTBEAT_URL CLAUDE_ALLOWED_TOOLS CHAT_TOOLS APPROVE_TOOLS "
    "TRANSCRIBE_URL SEND_FILES WEB_ORIGIN WEB_PROXY DAILY_LIMIT WRITER".split()
)
EDITABLE = {name for names in SUBJECTS.values() for name in names.split()} - ONLY_SHOWN
VALUE_CHARACTERS = 200

#: Name, value, where that is from, meaning.
SettingRow = tuple[str, str, str, str]


def page(asked: Asked) -> Response:
    where = sources.origins(setting_names())
    secret = set(sources.secrets_of(asked.settings.every()))
    rows: dict[str, SettingRow] = {}
    for lower, field, value in asked.settings.every():
        name = lower.upper()
        shown = MASKED if (name in secret or not field.repr) and value else _shown(value)
        rows[name] = name, shown, where.get(name, "default"), field.description or ""
    first = {subject: [rows.pop(name) for name in names.split() if name in rows] for subject, names in SUBJECTS.items()}
    rest = sorted(rows.values())
    file = sources.settings_file()
    # What comes before the file is not changed here.
    open_ = {row[0] for some in first.values() for row in some if row[2] in ("default", "file")}
    editable = open_ & EDITABLE if file and _may_write(file) else set[str]()
    more: dict[str, Any] = {"first": first, "rest": rest, "file": file, "editable": editable, "said": asked.said()}
    return asked.page("settings.html", "Settings", **more)


def save(asked: Asked) -> Response:
    """One value into the settings file, if the program accepts all of them with it."""
    name, value, file = asked.value("name"), asked.value("value").strip(), sources.settings_file()
    if name not in EDITABLE:
        raise NotShown
    if file is None or not _may_write(file):
        raise InvalidInput("This page may not write the settings file. Change it there, as the user who owns it.")
    if sources.origins(setting_names()).get(name, "file") != "file":
        raise InvalidInput(
            f"{name} is set in the environment or the credentials, which come before the file. Change it there."
        )
    if len(value) > VALUE_CHARACTERS or not value.isprintable():
        raise InvalidInput(f"The value of {name} is too long, or has characters that cannot be seen. Correct it.")
    file = file.resolve()  # a link stays one
    with locked_dir(file.parent):  # two at once would lose one
        try:
            settings_from(sources.given_values(setting_names(), file) | {name.lower(): value})
        except SettingsError as error:
            raise InvalidInput(f"Nothing was changed. {error}") from error
        text, found = sources.with_values(file.read_text(encoding="utf-8"), {name: value}, file), file.stat()
        write_atomic(file, text.encode(), Modes(found.st_mode & 0o777, group=found.st_gid))
    asked.session.said = f"{name} is written. The programs take it when they are started again: hmem init does that."
    return go_to("/settings")


def _may_write(file: Path) -> bool:
    """As who owns it: another's file would become ours."""
    return file.is_file() and file.stat().st_uid == os.geteuid() and os.access(file.resolve().parent, os.W_OK)


def _shown(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
