"""The steps of an upgrade, and of the way back. Each may be repeated: a killed upgrade goes on where its journal says.

    keep      the way back: the day store's copy, the settings file, the present package as a wheel (or its commit)
    install   the new version, in place of this one
    migrate   the new version opens the day store and the state directory, and takes over their formats
    restart   the services that ran
    check     the new version's doctor finds nothing decisive that was not there before

If a step fails, the way back is taken: the package, the day store if its revision was raised, the services. The modules of this room are all loaded
before the package on the disk changes; the new version only runs in processes of its own.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dispatcher.health.checks.formats import store_revision
from dispatcher.installation.upgrade import host, postgresql
from dispatcher.installation.upgrade.installation import ASIDE, Installation, carry_out
from dispatcher.installation.upgrade.journal import UpgradeJournal
from dispatcher.installation.upgrade.package import keep_wheel
from dispatcher.installation.upgrade.services import NAMES, Services
from dispatcher.memory.store.kept import AFTER, COPY, READY, back_up, leave_out_removed, put_back, write_memories_since
from shared.config.credentials import for_child
from shared.config.settings import Settings
from shared.config.sources import settings_file
from shared.errors import HmemError, UpgradeFailed
from shared.system.faults import crash_point
from shared.system.files import copy_atomic, write_atomic
from shared.system.keys import sealing
from shared.system.privileges import as_owner_of
from shared.system.processes import last_line, run_bounded

#: Seconds for the migration of a large day store.
MIGRATION_SECONDS = 3_600.0
MIGRATION, SETTINGS, BACK_SCRIPT = "dispatcher.installation.upgrade.migrate", "settings.toml", "back.sh"
FORWARD = ("keep", "install", "migrate", "restart", "check")
BACK = ("reinstall", "restart back", "store", "memories")


@dataclass
class Upgrade:
    """One upgrade, forward or back; `say` is told of each step in a sentence.

    `locks`: descriptors of what keeps other upgrades and nights away. Each program that writes something has them, too: should we be killed, it
    runs on in its session, and nobody else may begin until it has ended.
    """

    settings: Settings
    installation: Installation
    services: Services
    journal: UpgradeJournal
    say: Callable[[str], None]
    locks: tuple[int, ...] = ()
    settling: float = host.SETTLING_SECONDS

    def run(self) -> None:
        """Go on where the journal says, to the end. UpgradeFailed if a step failed, once the version before works again."""
        if self.journal.back:
            self._go_back()
            return
        try:
            for step in FORWARD[FORWARD.index(self.journal.step) :]:
                self._do(step)
        except (HmemError, OSError, subprocess.SubprocessError) as error:
            self._undo(str(error))
        self._note(lambda: self.journal.finish("done"))

    def go_back(self, why: str = "") -> None:
        """The version before; UpgradeFailed if it could not read what this one wrote, and nothing was changed then."""
        if not self.journal.back and self.journal.step == "keep":
            self._note(lambda: self.journal.finish("back"))
            self.say(f"Nothing had been changed: {self.journal.from_version} is installed.")
            return
        if not self.journal.back or self.journal.step == BACK[0]:
            self._refuse_without_package()
        if not self.journal.back:
            self._refuse_unreadable()
            self.journal.back, self.journal.why, self.journal.outcome, self.journal.step = True, why, "", BACK[0]
            self._note(self.journal.write)
            crash_point("upgrade:turned")
        self._go_back()

    def _undo(self, why: str) -> None:
        if self.journal.step == "keep":  # nothing has been changed yet
            self.journal.why = why
            self._note(lambda: self.journal.finish("back"))
            raise UpgradeFailed(
                f"Nothing was changed: {why} {self.journal.from_version} is still installed. Remove the cause, then run hmem upgrade again."
            )
        self.say(f"It failed: {why} Going back to {self.journal.from_version}.")
        try:
            self.go_back(why)
        except (HmemError, OSError, subprocess.SubprocessError) as error:
            if not self.journal.back:  # refused before anything was changed
                raise UpgradeFailed(f"The upgrade failed: {why} {error}") from error
            raise UpgradeFailed(
                f"The upgrade failed ({why}), and so did the way back ({error}). What was kept is in {self.journal.folder}: run sh "
                f"{self.journal.packages / BACK_SCRIPT}, then hmem upgrade --back."
            ) from error
        raise UpgradeFailed(
            f"The upgrade failed and was undone: {why} {self.journal.from_version} is installed again, nothing is lost. Remove the cause, then run "
            "hmem upgrade again."
        )

    def _do(self, step: str) -> None:
        every = {
            "keep": self._keep, "install": self._install, "migrate": self._migrate, "restart": self._restart, "check": self._check,
            "reinstall": self._reinstall, "store": self._put_store_back, "memories": self._import_since, "restart back": self._restart,
        }  # fmt: skip
        every[step]()
        crash_point(f"upgrade:{step}")
        names = BACK if self.journal.back else FORWARD
        following = [*names, ""][names.index(step) + 1]
        self._note(lambda: self.journal.next(following or step))

    def _go_back(self) -> None:
        for step in BACK[BACK.index(self.journal.step) :]:
            self._do(step)
        self._note(lambda: self.journal.finish("back"))
        self.say(f"{self.journal.from_version} is installed again.")
        try:
            for one in host.new_problems(self.installation.hmem, self.journal.problems, self._settling):
                self.say(f"To do: {one['sentence']} {one['fix']}")
        except UpgradeFailed as error:
            self.say(f"To do: {error}")

    # Forward.

    def _keep(self) -> None:
        folder, store = self.journal.folder, host.store_path(self.settings)
        self.say(f"Keeping the way back in {folder}.")
        self.journal.formats = host.formats_now(self.settings)
        self.journal.problems = sorted(one["name"] for one in host.doctor(self.installation.hmem))
        self.journal.services = list(self.services.running())
        with as_owner_of(self.settings.hmem_state_dir):
            if store and store.exists():
                back_up(store, folder / COPY)
                self.journal.revision = store_revision(folder / COPY)
            elif self.settings.has_day_store and store is None:
                self.say(postgresql.keep(self.settings.day_store_url or "", folder, self.locks))
            if (file := settings_file()) and file.exists():
                with suppress(PermissionError):  # what the dispatcher's user may not read is not copied to where it may
                    copy_atomic(file, folder / SETTINGS)
        self._keep_package()
        self.say(f"If hmem should not start any more: sh {self.journal.packages / BACK_SCRIPT}")

    def _keep_package(self) -> None:
        """By whoever installs, and where only they can write."""
        made, packages = self.journal, self.journal.packages
        made.commit = self.installation.commit
        if made.commit is None:
            made.wheel = keep_wheel(packages).name
        made.write_packages()
        back = self.installation.back(made.commit, made.wheel_path)
        write_atomic(packages / BACK_SCRIPT, _script(back, made.from_version, self.installation.root, made.commit))

    def _install(self) -> None:
        self.say("Installing.")
        for number, command in enumerate(
            carry_out(self.installation.forward(self.journal.target), "upgrade:halfway", self.locks)
        ):
            if number:  # the first has fetched
                self.journal.reached = self.installation.fetched()
                self.journal.write_packages()
            self.say(f"  {command}")
        # Of a git address in an environment, only now is it known which version it is.
        host.refuse_before_day(self.settings, host.version_of(self.installation.python))

    def _migrate(self) -> None:
        """By the new version, in a process of its own."""
        self.say("Taking over the formats.")
        with for_child("dispatcher") as (environment, descriptors):
            command = [str(self.installation.python), "-P", "-m", MIGRATION]
            done = run_bounded(
                command, MIGRATION_SECONDS, environment=environment, descriptors=(*descriptors, *self.locks)
            )
        if done.returncode:
            raise UpgradeFailed(f"The formats could not be taken over: {last_line(done)}")

    def _restart(self) -> None:
        names = [name for name in NAMES if name in self.journal.services]
        self.say(
            f"Restarting {' and '.join(names)}."
            if names
            else "No service of ours runs under systemd or supervisord: restart hmem run and hmem telegram yourself."
        )
        self.services.restart(names)

    def _check(self) -> None:
        found = host.new_problems(self.installation.hmem, self.journal.problems, self._settling)
        decisive = host.DECISIVE - (
            set() if self.journal.services else {"dispatcher", "bot"}
        )  # those we did not restart
        if bad := [one for one in found if one["name"] in decisive]:
            raise UpgradeFailed(f"hmem doctor of the new version found: {bad[0]['sentence']}")
        for one in found:
            self.say(f"To do: {one['sentence']} {one['fix']}")

    @property
    def _settling(self) -> float:
        return self.settling if self.journal.services else 0.0

    def _note(self, write: Callable[[], None]) -> None:
        """Change the journal, as the user whose directory it is in."""
        with as_owner_of(self.settings.hmem_state_dir):
            write()

    # Back.

    def _refuse_unreadable(self) -> None:
        """Directories and Redis whose format was raised cannot be taken back; the day store can."""
        now, before = host.formats_now(self.settings), self.journal.from_version
        if raised := sorted(place for place, number in now.items() if number > self.journal.formats.get(place, number)):
            raise UpgradeFailed(
                f"{before} could not read what is in {', '.join(raised)} since the upgrade, so there is no way back, and nothing was changed. "
                "Stay with this version, and report what does not work."
            )
        store = host.store_path(self.settings)
        raised_store = store and self.journal.revision and store_revision(store) not in (None, self.journal.revision)
        if raised_store and not (self.journal.folder / COPY).exists():
            raise UpgradeFailed(
                f"The day store has a newer format than {before} reads, and its copy is gone: hmem forget removed it. Stay with this version."
            )

    def _refuse_without_package(self) -> None:
        """Whatever the journal says: it lies where the dispatcher writes, and what is installed lies where it does not."""
        before = self.journal.from_version
        kept = self.journal.wheel_path
        if self.journal.commit is None and not (kept and kept.exists()):
            raise UpgradeFailed(
                f"The package of {before} is not kept any more ({kept or self.journal.packages}), so there is no way back, and nothing was changed. "
                "Install it from elsewhere."
            )

    def _reinstall(self) -> None:
        if branch := self.installation.set_aside((self.journal.commit, self.journal.reached)):
            self.say(
                f"{self.installation.root} has commits that the upgrade did not bring. They stay in the branch {branch}."
            )
        self.say(f"Installing {self.journal.from_version} again.")
        for command in carry_out(
            self.installation.back(self.journal.commit, self.journal.wheel_path), "upgrade:halfway back", self.locks
        ):
            self.say(f"  {command}")

    def _put_store_back(self) -> None:
        """Only if its revision was raised: else the present one, with all that came in since, is read as it is."""
        store, folder = host.store_path(self.settings), self.journal.folder
        if store is None:
            self.say(postgresql.how_back(folder))
            return
        if not (folder / COPY).exists() or not store.exists() or store_revision(store) == self.journal.revision:
            return
        self.say("Putting the day store back as it was; memories that were added since are imported into it.")
        with as_owner_of(self.settings.hmem_state_dir):
            back_up(store, folder / AFTER)
            back_up(folder / COPY, folder / READY)
            leave_out_removed(folder / READY, folder / AFTER)
            crash_point("upgrade:set aside")
            put_back(folder / READY, store)

    def _import_since(self) -> None:
        """By the version before, once its store is back."""
        store, folder = host.store_path(self.settings), self.journal.folder
        if store is None or not (folder / AFTER).exists():
            return
        with as_owner_of(self.settings.hmem_state_dir):
            files = write_memories_since(folder / COPY, folder / AFTER)
        failed = 0
        for chat, path in files.items():
            with for_child() as (environment, descriptors):
                command = [str(self.installation.hmem), "memory", "import", "--", chat, str(path)]
                done = run_bounded(
                    command, MIGRATION_SECONDS, environment=environment, descriptors=(*descriptors, *self.locks)
                )
            if not done.returncode and sealing.is_on():
                path.unlink()  # it is plain
            if done.returncode:
                failed += 1
                self.say(f"To do: hmem memory import -- {chat} {path} (it failed: {last_line(done)})")
        self.say(f"Chats whose memories since the upgrade are imported: {len(files) - failed} of {len(files)}.")


def _script(commands: list[list[str]], version: str, root: Path, commit: str | None) -> bytes:
    lines = [
        "#!/bin/sh",
        f"# Installs hcli-memory {version} again, where an interrupted upgrade left nothing that starts. Then: hmem upgrade --back",
        "set -e",
    ]
    if commit:  # what was committed since stays in a branch
        git = shlex.join(["git", "-C", str(root)])
        lines.append(f'[ "$({git} rev-parse HEAD)" = {commit} ] || {git} branch "{ASIDE}$(date -u +%Y%m%dT%H%M%S)"')
    return "\n".join([*lines, *map(shlex.join, commands), ""]).encode()
