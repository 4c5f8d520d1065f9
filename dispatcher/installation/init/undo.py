"""`hmem init --undo`: stop and remove everything that `hmem init` created, except the conversations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dispatcher.installation.init import claude_cli
from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.layout import account
from dispatcher.installation.services.by_hand import services_of
from dispatcher.installation.services.systemd import lingers
from dispatcher.installation.settings_files import given_settings, redis_users_file
from shared.config.sources import is_of_init
from shared.system.files import remove_tree


def undo(installation: InstallationInProgress) -> int:
    terminal, layout = installation.terminal, installation.layout
    if not is_of_init(layout.settings_file):
        terminal.say(
            f"hmem init has set up nothing here (it wrote no {layout.settings_file}), so there is nothing to undo."
        )
        return 0
    installation.values = given_settings(layout)
    terminal.title(
        "This will be taken out: the services, the settings with their secrets, the login that it was given, and the Claude CLI if it installed it"
    )
    terminal.say(f"  The conversations stay in {', '.join(map(str, _data(installation)))}.")
    if not terminal.confirm("Go ahead?"):
        terminal.say("Nothing was changed.")
        return 0
    # HmemError if one of them still runs: what it needs must not be removed then.
    manager = services_of(layout, installation.settings())
    manager.remove()
    terminal.done("services", "stopped and removed")
    for name in manager.unchecked:
        terminal.note(name, "not checked: if you have started it, stop it there, or take its line out of cron.")
    file, removed, others = claude_cli.take_out_login(layout.home)
    if removed:
        terminal.done("login", f"{', '.join(removed)} removed from {file}")
    remove_tree(layout.claude)
    secrets = filter(is_of_init, layout.secrets.glob("*.toml"))
    ours = (layout.redis / "redis.conf", layout.started, redis_users_file(layout), *secrets, layout.settings_file)
    for path in ours:  # the file that says that all of this is ours goes last
        path.unlink(missing_ok=True)
    for folder in (layout.redis, layout.memory, layout.night, layout.state, layout.secrets, layout.config):
        with suppress(OSError):  # it holds data, or something of the owner's
            folder.rmdir()
    if others:
        terminal.note("stays", f"{', '.join(others)} in {file}, which hmem init has not set. Edit that file.")
    for sentence in _left(installation):
        terminal.note("stays", sentence)
    terminal.title("Taken out. hmem init sets it up again, with the conversations that are there")
    return 0


def _data(installation: InstallationInProgress) -> list[Path]:
    """Where conversations are, also in the mirror."""
    layout, mirror = installation.layout, Path(installation.values.get("ARCHIVE_MIRROR", ""))
    ours = (layout.night, layout.memory, layout.state, layout.redis, layout.home, mirror)
    return [path for path in ours if path.is_absolute() and path.is_dir() and path != Path.home()]


def _left(installation: InstallationInProgress) -> Iterator[str]:
    if directories := _data(installation):
        yield f"The conversations, in {', '.join(map(str, directories))}. To delete them: rm -r, as root if they are another account's."
    if accounts := [name for name in installation.layout.accounts if account(name)]:
        yield f"The accounts {', '.join(accounts)}, which own them. To delete those: userdel NAME."
    yield "Packages of the system, a login of the Claude CLI with an account, and the settings of a Redis that hmem init has not made."
    if lingers():
        yield "Your services run without a login, which others may rely on by now. To end that: loginctl disable-linger."
