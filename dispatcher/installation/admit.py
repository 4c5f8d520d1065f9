"""`hmem admit`: lets the nights of another host deliver here. Their key gets one forced command, which knows releases and Redis and nothing else."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from shared.config.credentials import redis_url_of
from shared.config.sources import settings_file, with_values
from shared.delivery.joining import DAY, line_of
from shared.errors import InvalidInput, SettingsError
from shared.system.command import application, start
from shared.system.files import write_atomic
from shared.system.owner_key import open_signing
from shared.system.privileges import as_owner_of

app = application()
#: At the end of our line in authorized_keys: a new key replaces the one before.
COMMENT = "hmem-night-join"
#: What both hosts must agree on, or what only nights read.
SHARED = "chat_timezone night_cron embedder embed_model night_indexes index_name writer writes dream releases_kept"


@app.command()
def admit(
    key: Annotated[str, typer.Argument(help="The public key that `hmem-night join` prints, in quotation marks.")],
    host_keys: Annotated[
        str, typer.Option(help="The public keys of this host's sshd.")
    ] = "/etc/ssh/ssh_host_*_key.pub",
) -> None:
    """Let the nights of another host deliver here: accept its key, and print the line that `hmem-night join` asks for there."""
    if not re.fullmatch(r"ssh-ed25519 [A-Za-z0-9+/=]{60,80}", key):
        raise InvalidInput(
            "That is not the key that hmem-night join prints. Copy its line whole, with the quotation marks."
        )
    settings, file = start("owner", None, children=("night",), logs=False), settings_file()
    memory = settings.hmem_memory_dir
    if file is None or not memory.is_dir():
        raise SettingsError(
            "This host has no installation: no settings file, or no HMEM_MEMORY_DIR. Run hmem init first."
        )
    if not (
        sshd := [" ".join(one.read_text("ascii").split()[:2]) for one in sorted(Path("/").glob(host_keys.lstrip("/")))]
    ):
        raise SettingsError(
            f"There is no {host_keys}, so no sshd runs here. Install openssh-server, or name its keys (--host-keys)."
        )
    if (signing := open_signing(settings)).key is None:
        raise SettingsError(f"There is no usable owner's key: {signing.why_not}. {signing.way_on}".strip())
    account = pwd.getpwuid(memory.stat().st_uid)
    # As a night of this host logs in: with three users, as the user `night` of Redis.
    url = redis_url_of("night", settings.redis_url) or settings.redis_url
    for_night = _for_night(url)
    variables = f"HMEM_CONFIG={shlex.quote(str(file.absolute()))}"
    if os.geteuid() == 0 and account.pw_uid != 0:
        variables += f" HMEM_CREDENTIALS={_prepare(file, url, account)}"
    command = f'{variables} {shlex.quote(sys.executable)} -P -m shared.delivery.receiver \\"$SSH_ORIGINAL_COMMAND\\"'
    home = Path.home() if account.pw_uid == os.geteuid() else Path(account.pw_dir)
    _accept(home, f'restrict,command="{command}" {key} {COMMENT}')
    values = {
        name.upper(): str(getattr(settings, name)) for name in SHARED.split() if name in settings.model_fields_set
    }
    values |= {"CHAT_TIMEZONE": settings.chat_timezone, "OWNER_PUBLIC_KEY": signing.key.public}
    typer.echo("The key is accepted. Give this line to hmem-night join; it has the password of Redis:", err=True)
    typer.echo(line_of({"account": account.pw_name, "host_keys": sshd, "redis_url": for_night, "settings": values}))


def _for_night(url: str) -> str:
    """As it is if it names a host; else the same login at DAY, where ssh leads to Redis."""
    parts = urlsplit(url)
    if parts.scheme != "unix" and parts.hostname not in ("127.0.0.1", "localhost", "::1", None):
        return url
    if parts.scheme == "rediss":  # its certificate names a host: through ssh it would name another
        raise SettingsError(
            "REDIS_URL is rediss:// on this host alone. Set it to redis://, or to a name that both hosts reach."
        )
    login, at, _ = parts.netloc.rpartition("@")
    number = re.search(r"db=([0-9]+)", parts.query) or re.search(r"^/([0-9]+)$", parts.path)
    return f"redis://{login}{at}{DAY}/{number[1] if number else 0}"


def _prepare(file: Path, url: str, account: pwd.struct_passwd) -> Path:
    """Secrets of the forced command, whose account may not read the others', and a shell through which sshd starts it."""
    path = file.with_name("receive.toml")
    write_atomic(path, with_values("", {"REDIS_URL": url}, path).encode())
    path.chmod(0o640)
    os.chown(path, 0, account.pw_gid)
    if Path(account.pw_shell).name in ("nologin", "false"):
        # "*" is no password; "!" would lock the account for an sshd without PAM.
        subprocess.run(["usermod", "--shell", "/bin/sh", "--password", "*", account.pw_name], check=True)
    return path


def _accept(home: Path, line: str) -> None:
    """As that account, in whose directory root would follow links."""
    path = home / ".ssh" / "authorized_keys"
    with as_owner_of(home):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        known = path.read_text("utf-8").splitlines() if path.exists() else []
        others = [one for one in known if not one.endswith(COMMENT)]
        write_atomic(path, "".join(f"{one}\n" for one in [*others, line]).encode())
