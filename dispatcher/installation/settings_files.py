"""The settings of an installation as files: one file, or with three users one without secrets and one of secrets for each part.

Files that exist are kept: a value is replaced in its line or appended, so what their owner wrote stays.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path

from dispatcher.installation import environment
from dispatcher.installation.layout import Layout, give
from shared.config.settings import setting_names
from shared.config.sources import WRITTEN_BY, is_of_init, with_values
from shared.errors import InstallationIncomplete, SettingsError
from shared.hooks import feature_modules
from shared.system.files import locked_dir, write_atomic
from shared.wire.users import acl, renewed, users

#: With three users: the part → the settings of its file of secrets, besides REDIS_URL.
SECRETS = {
    "dispatcher": ("RESULT_HMAC_KEY",),
    "bot": ("RESULT_HMAC_KEY", "TELEGRAM_BOT_TOKEN", "ALLOWED_CHATS"),
    "night": (),
    "owner": ("RESULT_HMAC_KEY", "REDIS_ADMIN_URL"),
}
#: Those that several parts need.
SHARED_SECRETS = ("QDRANT_API_KEY", "REDIS_VECTORS_URL", "DAY_STORE_URL", "HEARTBEAT_URL", "QDRANT_URL")
#: Each file's values, by name in capitals, as text.
Files = dict[Path, dict[str, str]]
_HEAD = f"{WRITTEN_BY}; yours to change (docs/settings.md). After a change restart: hmem init does.\n"


def read_files(layout: Layout) -> Files:
    """What an earlier installation has in its files."""
    return {path: _values_of(path) for path in [*_secret_files(layout), layout.settings_file]}


def given_settings(layout: Layout, files: Files | None = None) -> dict[str, str]:
    """What the environment sets, and for the rest what the files have: name in capitals → value as text."""
    files, found = files or read_files(layout), dict[str, str]()
    for path in (*files, layout.secrets / "owner.toml"):  # of REDIS_URL, the owner's
        found |= files.get(path, {})
    return found | environment.given(setting_names())


def settings_hash(layout: Layout) -> str:
    """Of what the programs read when they start."""
    paths = [path for path in (*_secret_files(layout), layout.settings_file) if path.exists()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def write_settings(layout: Layout, values: Mapping[str, str], *, own_redis: bool, known: Files | None = None) -> bool:
    """Whether anything changed. `known`: what was read from the files, and is written from now on: a value that is there already may have another
    one by now, from the owner's page or by hand, which stays. With three users, our own Redis has a user for each part: `write_redis_users`
    writes those."""
    known = {} if known is None else known

    def write(path: Path, wanted: Mapping[str, str], mode: int) -> bool:
        before = known.setdefault(path, {})
        new = {name: value for name, value in wanted.items() if before.get(name) != value}
        changed = write_values(path, new, mode)
        before |= new
        return changed

    if layout.kind != "three-users":
        return write(layout.settings_file, values, 0o600)
    of_features = [name for module in feature_modules("settings") for name in getattr(module, "OWNER_SECRETS", ())]
    parts = SECRETS | {"owner": (*SECRETS["owner"], *of_features)}
    secret = {*SHARED_SECRETS, "REDIS_URL", *(name for names in parts.values() for name in names)}
    changed = write(layout.settings_file, {k: v for k, v in values.items() if k not in secret}, 0o644)
    for part, names in parts.items():
        wanted = {name: values[name] for name in (*names, *SHARED_SECRETS) if name in values}
        if "REDIS_URL" in values and not own_redis:
            wanted["REDIS_URL"] = values["REDIS_URL"]
        changed |= write(layout.secrets / f"{part}.toml", wanted, 0o600)
    return changed


def write_values(path: Path, values: Mapping[str, str], mode: int) -> bool:
    """Set values in a TOML file; whether it changed."""
    with locked_dir(path.parent):  # the owner's page may write to it, too
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        text = with_values(before or _HEAD, values, path)
        if text != before:
            write_atomic(path, text.encode())
        path.chmod(mode)
    return text != before


def refuse_by_hand(layout: Layout) -> None:
    """InstallationIncomplete if somebody else wrote the settings: then what runs here is not known, and secrets could be in that file."""
    path = layout.settings_file
    if path.exists() and not is_of_init(path):
        raise InstallationIncomplete(
            f"{path} exists, and does not begin with {WRITTEN_BY!r}, so this host was set up by hand. Keep it so; or stop its services, move "
            "the file away, and give what you need of it in the environment."
        )


def new_key() -> str:
    return secrets.token_hex(32)


def redis_users_file(layout: Layout) -> Path:
    """The ACL file of our own Redis, where each part is a user of it."""
    return layout.config / "redis-users.acl"


def renew_redis_users(layout: Layout) -> bool:
    """Give them the rights of this version; passwords stay. Whether they had others: Redis reads the file when it starts."""
    rights = redis_users_file(layout)
    before = rights.read_text(encoding="utf-8") if rights.exists() else ""
    if not before or (text := renewed(before)) == before:
        return False
    write_atomic(rights, text.encode())
    give(rights, 0o640, group=layout.redis_user)
    return True


def write_redis_users(layout: Layout, port: int) -> None:
    """With three users: a new password for each user of Redis, in its file of secrets, and the file of their rights."""
    rights = redis_users_file(layout)
    passwords = {user.name: new_key() for user in users() if user.password}
    urls = {name: f"redis://{name}:{password}@127.0.0.1:{port}/0" for name, password in passwords.items()}
    for name, url in urls.items():
        if name != "admin":
            write_values(layout.secrets / f"{name}.toml", {"REDIS_URL": url}, 0o600)
    write_values(layout.secrets / "owner.toml", {"REDIS_ADMIN_URL": urls["admin"]}, 0o600)
    write_atomic(rights, acl(passwords).encode())
    give(rights, 0o640, group=layout.redis_user)


def _secret_files(layout: Layout) -> list[Path]:
    return [layout.secrets / f"{part}.toml" for part in SECRETS] if layout.kind == "three-users" else []


def _values_of(path: Path) -> dict[str, str]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error}. Correct or remove it.") from error
