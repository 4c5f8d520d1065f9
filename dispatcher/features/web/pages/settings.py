"""*Settings*, to be read: by subject first what people touch, the rest folded, secrets masked."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked
from shared.config import sources
from shared.config.settings import setting_names

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
    return asked.page("settings.html", "Settings", first=first, rest=rest, file=sources.settings_file())


def _shown(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
