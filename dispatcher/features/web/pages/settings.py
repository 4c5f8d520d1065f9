"""*Settings*: what is set, and where; secrets are masked."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked
from shared.config import sources
from shared.config.settings import setting_names

MASKED = "•••••• (set, not shown)"


def page(asked: Asked) -> Response:
    where = sources.origins(setting_names())
    secret = set(sources.secrets_of(asked.settings.every()))
    rows = []
    for name, field, value in asked.settings.every():
        shown = MASKED if (name.upper() in secret or not field.repr) and value else _shown(value)
        rows.append((name.upper(), shown, where.get(name.upper(), "default"), field.description or ""))
    return asked.page("settings.html", "Settings", rows=sorted(rows), file=sources.settings_file())


def _shown(value: Any) -> str:
    return (
        ""
        if value is None
        else {True: "true", False: "false"}.get(value, str(value))
        if isinstance(value, bool)
        else str(value)
    )
