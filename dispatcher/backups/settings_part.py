"""Settings of a backup: those that are given on this host, without what gives access to something. The names of those are kept, to be set again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from shared.config import sources
from shared.config.settings import Settings, setting_names
from shared.system.files import write_atomic

#: Settings that name places of one host, or places in which only one host may write. The new host's own are used instead.
PLACES = (
    "HMEM_MEMORY_DIR", "HMEM_STATE_DIR", "HMEM_NIGHT_DIR", "REDIS_URL", "DAY_STORE_URL", "MEDIA_DIR",
    "ENCRYPT_KEY_FILE", "NIGHT_ENCRYPT_KEY_FILE", "JOURNAL", "ARCHIVE_MIRROR", "PUBLISH_TARGET",
)  # fmt: skip
#: Addresses that are secrets as a whole: who knows one may use it. And a test's setting.
_WHOLE = ("HEARTBEAT_URL", "HMEM_CRASH_AT")
_WITH_PASSWORD = re.compile(r"://[^/@\s]*@|(?:password|passwd|token|secret|api[_-]?key)\s*[=:]\s*\S", re.IGNORECASE)
#: Files beside the settings that give access to something, and how their owner speaks of them.
SECRET_FILES = (
    "your key (OWNER_KEY_FILE)",
    "the login of the Claude CLI",
    "your encryption key (ENCRYPT_KEY_FILE), if you encrypt",
    "the password of this backup (BACKUP_PASSWORD_FILE)",
)


def settings_without_secrets(settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """(name → value of what is given on this host; the names of the secrets that are left out)."""
    given = sources.given_values(setting_names(), sources.settings_file())
    kept: dict[str, Any] = {}
    left = list[str]()
    for field, value in sorted(given.items()):
        name = field.upper()
        secret = isinstance(getattr(settings, field), SecretStr) or name in _WHOLE or _WITH_PASSWORD.search(str(value))
        if secret:
            left.append(name)
        else:
            kept[name] = value
    return kept, [name for name in left if name != "HMEM_CRASH_AT"]


def with_own_places(values: dict[str, Any], settings: Settings) -> tuple[dict[str, Any], list[str]]:
    """(a backup's settings with the places of this host; those that then are missing, with the backup's value if it has one).

    An address with a password is not written down: it is given here in another way, or has to be.
    """
    own = {name: str(getattr(settings, name.lower()) or "") for name in PLACES}
    kept = {name: value for name, value in own.items() if value and not _WITH_PASSWORD.search(value)}
    missing = [name for name in PLACES if name not in kept and (name in values or own[name])]
    told = [name + (f" (there: {values[name]})" if name in values else "") for name in missing]
    return {name: value for name, value in values.items() if name not in PLACES} | kept, told


def write_settings(path: Path, values: dict[str, Any]) -> None:
    """As a settings file."""
    lines = [f"{name} = {_toml(value)}\n" for name, value in values.items()]
    write_atomic(path, "".join(lines).encode())


def _toml(value: Any) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
