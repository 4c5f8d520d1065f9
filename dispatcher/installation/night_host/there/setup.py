"""On the night host: its account, directories, keys, ssh files, settings and services."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dispatcher.installation.init import host
from dispatcher.installation.init.context import InitContext
from dispatcher.installation.init.terminal import Terminal
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import BINARIES, LONGEST_SOCKET, Layout, layout_here
from dispatcher.installation.night_host.day_access import KEYS
from dispatcher.installation.night_host.night_settings import KEY_FILE, KEY_FOLDER
from dispatcher.installation.night_host.redis_tunnel import MODULE
from dispatcher.installation.night_host.there.trial import TRANSFER, VERBS, KeyTrial
from dispatcher.installation.run import as_account, run
from dispatcher.installation.services.base import Program, ServiceManager
from dispatcher.installation.services.choose import manager_of
from dispatcher.installation.settings_files import write_values
from shared.config.settings import settings_from
from shared.errors import InstallationIncomplete
from shared.system.files import remove_tree, write_atomic
from shared.system.privileges import as_owner_of

#: Beside the settings: what was made here (journal.py), and the directory with keys and ssh files.
JOURNAL, SSH_FILES = "night-host.json", "night-host"
_HEAD = "# Written by hmem init --night-host on the day host. What both hosts must agree on is changed there, and the command run again.\n"
_SSH_CONFIG = """\
# Written by hmem init --night-host: how this host reaches the day host, with a key for each purpose.
Host hmem-day-*
  HostName {address}
  Port {port}
  User {account}
  HostKeyAlias hmem-day
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  IdentitiesOnly yes
  IdentityAgent none
  BatchMode yes
  ControlPath none
  ConnectTimeout 15
  ServerAliveInterval 15
  LogLevel ERROR
"""


@dataclass(frozen=True)
class NightSide:
    """This host, as the nights of another one's installation use it."""

    context: InitContext

    @property
    def layout(self) -> Layout:
        return self.context.layout

    @property
    def journal(self) -> InstallationJournal:
        return self.context.journal

    @property
    def ssh_files(self) -> Path:
        return self.layout.config / SSH_FILES

    @property
    def socket(self) -> Path:
        """Redis of the day host."""
        return self.layout.redis / "redis.sock"

    @property
    def key_file(self) -> Path:
        """The encryption key, if the day host encrypts."""
        return self.layout.night.with_name(KEY_FOLDER) / KEY_FILE

    @property
    def encryption(self) -> dict[str, str]:
        """The setting that names it."""
        return {"ENCRYPT_KEY_FILE": str(self.key_file)} if self.key_file.exists() else {}

    @property
    def secrets_file(self) -> Path:
        """With REDIS_URL in it."""
        return self.layout.secrets / "night.toml" if self.layout.kind == "three-users" else self.layout.settings_file

    def redis_url(self) -> str:
        """As the settings here have it; "" if they do not."""
        file = self.secrets_file
        return str(tomllib.loads(file.read_text(encoding="utf-8")).get("REDIS_URL", "")) if file.exists() else ""

    def as_night(self) -> dict[str, Any]:
        """Arguments for subprocess by which a program runs as the account of the nights."""
        return as_account(self.layout.night_user, self.layout.home)

    def trial(self, address: str) -> KeyTrial:
        return KeyTrial(self.ssh_files / "ssh_config", self.as_night(), address)

    def manager(self, *, tunnel: bool) -> ServiceManager:
        """`tunnel`: whether Redis is reached through one."""
        layout = self.layout
        file = layout.settings_file
        known = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        settings = settings_from(
            {
                name.lower(): value
                for name, value in known.items()
                if name in ("NIGHT_CRON", "CHAT_TIMEZONE", "ENCRYPT_KEY_FILE")
            }
        )
        listen = (sys.executable, "-P", "-m", MODULE, "listen", str(self.socket), str(self.ssh_files / "ssh_config"))
        programs = [
            Program("tunnel", "Redis of the day host for hcli-memory", listen, layout.night_user, layout.home),
            Program("night", "hcli-memory nights", (str(BINARIES / "hmem-night"), "schedule"), layout.night_user, layout.home),
        ]  # fmt: skip
        return manager_of(layout, settings, programs if tunnel else programs[1:])

    def refuse_other_installation(self) -> None:
        """InstallationIncomplete if this host is somebody's day host, or was set up by hand."""
        layout = self.layout
        settings = layout.settings_file
        if not InstallationJournal(layout.journal).is_empty:
            raise InstallationIncomplete(
                f"hmem init has set up an installation of its own there ({layout.journal}). Use another host, or another user of it."
            )
        if settings.exists() and str(settings) not in self.journal.names("file"):
            raise InstallationIncomplete(
                f"{settings} exists, and hmem init did not write it, so that host was set up by hand. Move it away, or use another user."
            )


def night_side(terminal: Terminal, *, own_user: bool) -> NightSide:
    layout = layout_here(own_user=own_user)
    night_home = layout.night if layout.kind == "three-users" else layout.home
    layout = replace(layout, day_user=layout.night_user, bot_user=None, redis_user=None, home=night_home)
    return NightSide(
        InitContext(layout, terminal, InstallationJournal(layout.config / JOURNAL), {}, own_redis=False, as_user=own_user)
    )  # fmt: skip


def make_places(side: NightSide) -> None:
    context, layout = side.context, side.layout
    if len(str(side.socket)) > LONGEST_SOCKET:
        raise InstallationIncomplete(f"The path {side.socket} is too long for a socket. Set XDG_DATA_HOME to a shorter one there.")  # fmt: skip
    shared = 0o755 if layout.night_user else 0o700
    context.make_directory(layout.config, shared)  # the journal is in it
    if layout.accounts:
        host.create_accounts(context)
    wanted = [
        (side.ssh_files, 0o700, layout.night_user),
        (layout.redis, 0o700, layout.night_user),
        (layout.logs, 0o700, None),
    ]
    if layout.kind == "three-users":
        wanted.append((layout.secrets, 0o700, None))
    elif layout.night_user:
        wanted.append((layout.home, 0o700, layout.night_user))
    for path, mode, owner in wanted:
        context.make_directory(path, mode, owner)


def make_keys(side: NightSide) -> dict[str, str]:
    """Name → public half; made once, as the account of the nights, which alone may read the private halves."""
    public = {}
    for name in KEYS:
        path = side.ssh_files / name
        if not path.with_name(f"{name}.pub").exists():
            path.unlink(missing_ok=True)  # of a run that was killed
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"hmem-{name}", "-f", str(path)]
            run(command, f"Making the key {name}", "Install openssh-client there.", **side.as_night())
        public[name] = path.with_name(f"{name}.pub").read_text(encoding="ascii").strip()
    return public


def write_ssh_files(side: NightSide, given: Mapping[str, Any]) -> bool:
    """`address`, `port`, `account` and `host_keys` of the day host; whether anything changed."""
    folder = side.ssh_files
    config = _SSH_CONFIG.format(address=given["address"], port=given["port"], account=given["account"], folder=folder)
    config += "".join(f"Host hmem-day-{name}\n  IdentityFile {folder / name}\n" for name in KEYS)
    files = {"ssh_config": config, "known_hosts": "".join(f"hmem-day {key}\n" for key in given["host_keys"])}
    changed = False
    with as_owner_of(folder):
        for name, text in files.items():
            path = folder / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_atomic(path, text.encode())
                changed = True
    return changed


def write_keys(side: NightSide, files: Mapping[str, str]) -> bool:
    """The encryption key with its keyrings, once: what changes later comes through Redis. Whether anything was written."""
    if not files or side.key_file.exists():
        return False
    folder = side.key_file.parent
    side.context.make_directory(folder, 0o700, side.layout.night_user)
    with as_owner_of(folder):
        for name in sorted(files, reverse=True):  # the key last: it says that the keyrings are there
            write_atomic(folder / name, files[name].encode())
    return True


def write_night_settings(side: NightSide, values: Mapping[str, str], redis_url: str) -> bool:
    """What the day host gives, and what is this host's own; `redis_url` is "" to keep the one that is there."""
    layout, ssh = side.layout, ["ssh", "-F", str(side.ssh_files / "ssh_config")]
    own = {
        "HMEM_NIGHT_DIR": str(layout.night),
        "HMEM_STATE_DIR": str(layout.state),
        "HMEM_MEMORY_DIR": str(layout.memory),
        "PUBLISH_TARGET": f"{TRANSFER}:",
        "PUBLISH_SSH": shlex.join(ssh),
        "RELEASE_COMMAND": shlex.join([*ssh, VERBS]),
        **side.encryption,
    }
    secret = {"REDIS_URL": redis_url} if redis_url else {}
    file = layout.settings_file
    if not file.exists():
        side.journal.add("file", file)
        write_atomic(file, _HEAD.encode())
    if side.secrets_file != file:
        changed = write_values(file, side.journal, {**values, **own}, 0o644)
        return write_values(side.secrets_file, side.journal, secret, 0o600) or changed
    mode = 0o640 if layout.night_user else 0o600
    return write_values(file, side.journal, {**values, **own, **secret}, mode, layout.night_user)


def remove_places(side: NightSide) -> None:
    """Files and directories that were made here, in the reverse order; accounts own the archive and stay."""
    trees = (side.ssh_files, side.layout.redis, side.layout.logs, side.key_file.parent)
    for one in reversed(list(side.journal.created)):
        path = Path(one.name)
        if one.what == "file":
            path.unlink(missing_ok=True)
        elif one.what == "directory" and path in trees and path.exists():
            remove_tree(path)
        elif one.what == "directory":
            _remove_empty(path)
    (side.layout.config / JOURNAL).unlink(missing_ok=True)
    _remove_empty(side.layout.config)


def _remove_empty(path: Path) -> None:
    with suppress(OSError):  # something of somebody else's is in it, or it is gone
        path.rmdir()
