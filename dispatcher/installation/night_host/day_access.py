"""What the night host may do here: three keys in authorized_keys of the account that owns the releases, each with one forced command.

With `transfer` rsync writes into incoming/, with `verbs` a release is verified and switched, with `redis` one connection to Redis is made
(redis_tunnel.py). None of them gets a terminal, a forwarding or another command.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dispatcher.installation.init.context import InitContext
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import BINARIES, Layout, account
from dispatcher.installation.run import run
from dispatcher.installation.settings_files import write_values
from shared.errors import InstallationIncomplete
from shared.system.files import make_dir, write_atomic
from shared.system.privileges import as_owner_of

KEYS = ("transfer", "verbs", "redis")
#: At the end of our lines, before the name of the key.
_COMMENT = "hmem-night-host-"
#: sshd starts forced commands through the account's shell.
LOGIN_SHELL = "/bin/sh"
_HOST_KEYS = Path("/etc/ssh")


def owner_of_releases(layout: Layout) -> pwd.struct_passwd:
    """The account that the night host logs in as. InstallationIncomplete if there is none yet."""
    if layout.night_user is None:
        return pwd.getpwuid(os.geteuid())
    found = account(layout.night_user)
    if found is None:
        raise InstallationIncomplete(f"There is no account {layout.night_user} here. Run hmem init, which creates it.")
    return found


def home_of(layout: Layout) -> Path:
    """Where sshd looks for its authorized_keys."""
    return layout.home if layout.night_user is None else Path(owner_of_releases(layout).pw_dir)


def host_keys(given: str) -> list[str]:
    """The public keys of this host's sshd, read here: the night host need not trust the network for them."""
    paths = [Path(given)] if given else sorted(_HOST_KEYS.glob("ssh_host_*_key.pub"))
    try:
        found = [" ".join(path.read_text(encoding="ascii").split()[:2]) for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise InstallationIncomplete(
            f"The host key {given or _HOST_KEYS} cannot be read ({error}). Correct it (--day-host-key), then run the same command again."
        ) from error
    if not found:
        raise InstallationIncomplete(
            f"There is no public host key in {_HOST_KEYS}, so no sshd is installed here, and the night host could not bring releases. Install it "
            "(sudo apt-get install openssh-server), or name its key with --day-host-key."
        )
    return found


def allow(
    installation: InitContext, journal: InstallationJournal, public: Mapping[str, str], redis_address: str | None
) -> bool:
    """Write the lines; whether anything changed. `public`: name of the key → its public half; without an address no key leads to Redis."""
    layout = installation.layout
    commands = {"transfer": _transfer(layout), "verbs": _verbs(installation, journal)}
    if redis_address:
        relay = [str(BINARIES / "python"), "-P", "-m", "dispatcher.installation.night_host.redis_tunnel", "relay"]
        commands["redis"] = shlex.join([*relay, redis_address])
    lines = [
        f'restrict,command="{_quoted(command)}" {" ".join(public[name].split()[:2])} {_COMMENT}{name}'
        for name, command in commands.items()
    ]
    with as_owner_of(layout.memory):
        make_dir(layout.memory / "incoming")
    _give_shell(layout, journal)
    journal.add("authorized-keys", _file(layout))
    return _write_lines(layout, lines)


def refuse_all(layout: Layout) -> None:
    """Take our lines out again."""
    if _file(layout).exists():
        _write_lines(layout, [])


def restore_shell(journal: InstallationJournal) -> None:
    for name, shell in (one.split("=", 1) for one in journal.names("shell")):
        run(
            ["usermod", "--shell", shell, name], f"Giving {name} its shell back", f"Run: usermod --shell {shell} {name}"
        )


def _transfer(layout: Layout) -> str:
    program = shutil.which("rrsync")
    if program is None:
        raise InstallationIncomplete(
            "rrsync, which comes with rsync and limits what the night host may write, is not here. Install rsync 3.2 or newer."
        )
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    options = ["-wo", "-no-del", "-munge", *(["-no-overwrite"] if "-no-overwrite" in known else [])]
    return shlex.join([program, *options, str(layout.memory / "incoming")])


def _verbs(installation: InitContext, journal: InstallationJournal) -> str:
    """With three users the settings have no password of Redis in them: then a file of that account's has."""
    layout = installation.layout
    variables = f"HMEM_CONFIG={layout.settings_file}"
    if layout.kind == "three-users":
        path = layout.config / "receive.toml"
        url = night_url(layout) or installation.values["REDIS_URL"]
        write_values(path, journal, {"REDIS_URL": url}, 0o640, layout.night_user)
        variables += f" HMEM_CREDENTIALS={path}"
    receive = shlex.join([str(BINARIES / "python"), "-P", "-m", "shared.delivery.receiver"])
    return f'{variables} {receive} "$SSH_ORIGINAL_COMMAND"'


def night_url(layout: Layout) -> str:
    """With three users, what the night here logs in to Redis with; "" if there is nothing."""
    import tomllib

    path = layout.secrets / "night.toml"
    return str(tomllib.loads(path.read_text(encoding="utf-8")).get("REDIS_URL", "")) if path.exists() else ""


def _give_shell(layout: Layout, journal: InstallationJournal) -> None:
    user = owner_of_releases(layout)
    if layout.night_user and Path(user.pw_shell).name in ("nologin", "false"):
        journal.add("shell", f"{user.pw_name}={user.pw_shell}")
        # "*" is no password that anybody could type; with useradd's "!" an sshd without PAM takes the account for locked.
        command = ["usermod", "--shell", LOGIN_SHELL, "--password", "*", user.pw_name]
        run(command, f"Giving {user.pw_name} a shell for its forced commands", f"Run it by hand: {' '.join(command)}")


def _file(layout: Layout) -> Path:
    return home_of(layout) / ".ssh" / "authorized_keys"


def _write_lines(layout: Layout, lines: list[str]) -> bool:
    """As that account, in whose directory root would follow links."""
    path = _file(layout)
    with as_owner_of(home_of(layout)):
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        others = [line for line in before.splitlines() if _COMMENT not in line]
        text = "".join(f"{line}\n" for line in [*others, *lines])
        if text != before:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomic(path, text.encode())
    return text != before


def _quoted(command: str) -> str:
    """Inside the quotation marks of an option."""
    return command.replace('"', '\\"')
