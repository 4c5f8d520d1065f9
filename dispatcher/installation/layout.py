"""Where the parts of an installation are on this host, the programs that run all the time, and the accounts that run them.

Two kinds: `three-users` (root under systemd: bot, dispatcher and night are accounts that cannot read each other's files) and `own-user`
(everything in this user's home, as this user).
"""

from __future__ import annotations

import os
import pwd
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from dispatcher.installation import environment
from shared.config.sources import DEFAULT_CONFIG, user_settings_file
from shared.errors import InstallationIncomplete

Kind = Literal["three-users", "own-user"]

#: What a path of a socket may have at most (sun_path is 108 bytes).
LONGEST_SOCKET = 100
#: The directory of hmem and hmem-night.
BINARIES = Path(sys.executable).parent
#: Seconds that the dispatcher may take to finish its answers (TASK_TIMEOUT and a little), and the others.
DISPATCHER_STOPS, OTHERS_STOP = 660, 30
#: Names of the accounts, as systemd/README.md creates them.
DAY_USER, NIGHT_USER, BOT_USER, REDIS_USER = "hmem", "hmem-night", "hmem-bot", "hmem-redis"


@dataclass(frozen=True)
class Layout:
    """`home` is the HOME of dispatcher and Claude CLI; `claude` is where the CLI is installed if there is none; an account of None is this user."""

    kind: Kind
    config: Path
    state: Path
    night: Path
    memory: Path
    redis: Path
    home: Path
    claude: Path
    day_user: str | None = None
    night_user: str | None = None
    bot_user: str | None = None
    redis_user: str | None = None

    @property
    def settings_file(self) -> Path:
        return self.config / "hmem.toml"

    @property
    def started(self) -> Path:
        """A hash of the settings with which the programs were started last."""
        return self.config / "started"

    @property
    def secrets(self) -> Path:
        """With three users: a file of secrets for each."""
        return self.config / "secrets"

    @property
    def accounts(self) -> list[str]:
        """Each account once, the dispatcher's first."""
        every = (self.day_user, self.night_user, self.bot_user, self.redis_user)
        return list(dict.fromkeys(name for name in every if name))


@dataclass(frozen=True)
class Service:
    """Programs are started in the order in which they are listed. `kill_mode`: systemd's; `unit`: a feature's own unit for three users."""

    name: str
    description: str
    command: tuple[str, ...]
    stop_seconds: int = OTHERS_STOP
    kill_mode: str = "mixed"
    unit: Traversable | None = None


def programs_of(layout: Layout, *, own_redis: bool, bot: bool = True) -> list[Service]:
    """Redis first."""
    hmem, hmem_night = str(BINARIES / "hmem"), str(BINARIES / "hmem-night")
    redis = Service("redis", "Redis of hcli-memory", ("redis-server", str(layout.redis / "redis.conf")))
    dispatcher = Service("dispatcher", "hcli-memory dispatcher", (hmem, "run"), DISPATCHER_STOPS)
    telegram = Service("telegram", "hcli-memory Telegram bot", (hmem, "telegram"))
    night = Service("night", "hcli-memory nights", (hmem_night, "schedule"))
    return [*([redis] if own_redis else []), dispatcher, *([telegram] if bot else []), night]


def systemd_runs() -> bool:
    """Whether systemd is this host's init (as sd_booted(3) tests it)."""
    return Path("/run/systemd/system").is_dir()


def layout_here(*, own_user: bool = False) -> Layout:
    """The layout for whoever starts this. InstallationIncomplete if this host has another kind of installation that would take precedence."""
    if os.geteuid() == 0 and not own_user:
        if not systemd_runs():
            raise InstallationIncomplete(
                "No systemd runs here, so root has nothing that starts services. In containers use the compose file (deploy/README.md); or run hmem "
                "init as a user of your own (hmem init --user: as root), who starts the programs."
            )
        return of_host()
    if DEFAULT_CONFIG.exists():
        raise InstallationIncomplete(
            f"This host has an installation for all users already: {DEFAULT_CONFIG}. Use that one (sudo hmem init), or remove the file first."
        )
    return of_user()


def refuse_strange(*paths: str) -> None:
    """InstallationIncomplete for a path that the settings of Redis or systemd would take for something else."""
    for path in paths:
        if strange := sorted(set(re.sub(r"[\w./+@-]", "", path, flags=re.ASCII))):
            raise InstallationIncomplete(
                f"{path} has characters that services cannot have in a path ({' '.join(map(repr, strange))}). Use another directory."
            )


def of_user() -> Layout:
    file, home = user_settings_file(), Path.home()
    if file is None:
        raise InstallationIncomplete("This user has no home directory. Set HOME, or run hmem init as root.")
    refuse_strange(str(home), str(file))
    data = Path(environment.variable("XDG_DATA_HOME") or home / ".local/share") / "hmem"
    return Layout(
        "own-user", file.parent, data / "state", data / "night", data / "memory", data / "redis", home, data / "claude"
    )  # fmt: skip


def of_host(root: Path = Path("/")) -> Layout:
    """The directories of docs/install.md. `root` is for tests."""
    own = "var/lib/hmem"
    places = ("etc/hmem", own, f"{own}-night", "data/memory", f"{own}-redis", f"{own}-home", "opt/hmem-claude")
    config, state, night, memory, redis, home, claude = (root / one for one in places)
    users = (DAY_USER, NIGHT_USER, BOT_USER, REDIS_USER)
    return Layout("three-users", config, state, night, memory, redis, home, claude, *users)


def account(name: str) -> pwd.struct_passwd | None:
    with suppress(KeyError):
        return pwd.getpwnam(name)
    return None


def give(path: Path, mode: int, owner: str | None = None, group: str | None = None) -> None:
    """This mode; and if we are root, this account and group: root's where none is named, the owner's group without one."""
    user, of_group = account(owner or "root"), account(group or owner or "root")
    if os.geteuid() == 0 and user and of_group:
        os.chown(path, user.pw_uid, of_group.pw_gid)
    path.chmod(mode)
