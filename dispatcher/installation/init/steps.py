"""`hmem init`, from the questions to the first night. Each step says what it did, or that nothing was to be done; the first that fails ends the run.

Safe to rerun: it resumes where it stopped, creates nothing twice, and does not ask for what is set.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any

from dispatcher.installation.init import claude_cli, host, redis_server, telegram_bot
from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.init.questions import ask_everything
from dispatcher.installation.layout import BINARIES
from dispatcher.installation.run import as_account, run
from dispatcher.installation.services.by_hand import ServiceManager, services_of
from dispatcher.installation.settings_files import (
    given_settings,
    read_files,
    redis_users_file,
    refuse_by_hand,
    renew_redis_users,
    settings_hash,
    write_settings,
)
from shared.embedding.open import is_made_here, make_model
from shared.errors import InstallationIncomplete
from shared.system.archive_folder import archive_files
from shared.system.command import translate
from shared.system.files import write_atomic
from shared.system.steps import Step, StepRunner

#: Seconds that dispatcher and bot may take to start.
START_SECONDS = 90.0
NIGHT_SECONDS = 4 * 3600.0


def install(installation: InstallationInProgress) -> int:
    """Ask, show what will be done, do it. The exit code: 0, or that of the first problem that the doctor found."""
    terminal = installation.terminal
    refuse_by_hand(installation.layout)
    installation.files = read_files(installation.layout)
    installation.values = given_settings(installation.layout, installation.files)
    installation.fresh = not installation.layout.settings_file.exists()
    there = "hcli-memory is installed here; checking each part"
    terminal.title("hcli-memory: a bot that remembers" if installation.fresh else there)
    ask_everything(installation)
    redis = redis_server.choose_redis(installation)
    if installation.fresh:
        _show_plan(installation, redis)
        if not terminal.confirm("Go ahead?"):
            terminal.say("Nothing was changed.")
            return 0
    shared = 0o755 if installation.layout.day_user else 0o700
    installation.make_directory(installation.layout.config, shared)
    Installation(installation).run_all(STEPS)
    return _examine(installation)


class Installation(StepRunner):
    """A line for each step, with what it returned."""

    def __init__(self, context: InstallationInProgress) -> None:
        self._context = context

    def carry_out(self, step: Step) -> Any:
        return step.run(self._context)

    def commit(self, step: Step, result: Any, seconds: float) -> None:
        self._context.terminal.done(step.name, result, seconds)

    def failed(self, step: Step, error: Exception) -> None:
        if ours := translate(error):
            self._context.terminal.failed(step.name, str(ours))
            raise InstallationIncomplete(
                f"hmem init stopped at {step.name}. Do what its line says, then run hmem init again: it goes on from there."
            ) from error


def _show_plan(installation: InstallationInProgress, redis: str) -> None:
    layout, values = installation.layout, installation.values
    accounts = "three accounts (hmem, hmem-night, hmem-bot) that cannot read each other's files"
    missing = host.missing_packages(installation)
    rows = {
        "settings": str(layout.settings_file),
        "conversations": f"{layout.night}, {layout.memory} and {layout.state}",
        "runs as": accounts if layout.kind == "three-users" else "you",
        "Redis": redis + (f"; installs {', '.join(missing)} by apt" if missing else ""),
        "night": f"{values['NIGHT_CRON']} (cron), by the clock of {values['CHAT_TIMEZONE']}",
        "mirror": values.get("ARCHIVE_MIRROR", "none"),
    }
    installation.terminal.title("This will be set up")
    for name, value in rows.items():
        installation.terminal.say(f"  {name:14} {value}")


def _directories(installation: InstallationInProgress) -> str:
    """And the settings so far, so that no answer is lost if a later step fails."""
    outcome = host.create_directories(installation)
    _write(installation, without="CLAUDE_BIN")
    return outcome


def _model(installation: InstallationInProgress) -> str:
    """The embedding model for any language, unless another one was chosen."""
    settings = installation.settings()
    if not is_made_here(settings):
        return "another one is used"
    with installation.terminal.busy("Fetching the embedding model (91 MB)"):
        made = make_model()
    return f"{settings.model_name}, {'made' if made else 'there already'}"


def _redis(installation: InstallationInProgress) -> str:
    configured = redis_server.write_redis(installation)
    _write(installation, without="CLAUDE_BIN")
    installation.values = {**given_settings(installation.layout), **installation.values}
    renewed = installation.own_redis and _start_redis(installation)
    admin = installation.values.get("REDIS_ADMIN_URL") if installation.layout.kind == "three-users" else None
    answers = redis_server.check_redis(installation, admin or installation.values["REDIS_URL"])
    answers += f", corrected {redis_users_file(installation.layout)}" if renewed else ""
    return answers if configured == "there already" else f"{configured}; {answers}"


def _start_redis(installation: InstallationInProgress) -> bool:
    """Alone the first time, because the others cannot work yet. Whether its users have other rights now."""
    manager = services_of(installation.layout, installation.settings())
    if not manager.is_installed():  # an earlier run has not come as far as the services
        manager.programs = [program for program in manager.programs if program.name == "redis"]
    renewed = renew_redis_users(installation.layout)
    if "redis" in manager.stopped():
        manager.install()
        manager.start(["redis"])
    elif renewed:
        manager.restart(["redis"])
    return renewed


def _write(installation: InstallationInProgress, without: str = "") -> None:
    """The settings so far, without one that a later step proves."""
    values = {name: value for name, value in installation.values.items() if name != without}
    redis, known = installation.own_redis, installation.files
    installation.changed |= write_settings(installation.layout, values, own_redis=redis, known=known)


def _settings(installation: InstallationInProgress) -> str:
    _write(installation)
    return f"{'written to' if installation.changed else 'unchanged in'} {installation.layout.settings_file}"


def _services(installation: InstallationInProgress) -> str:
    manager = services_of(installation.layout, installation.settings())
    changed = manager.install()
    stopped = manager.stopped()
    if changed or stopped:
        manager.start([program.name for program in manager.programs])
    read, noted = settings_hash(installation.layout), installation.layout.started
    if not installation.fresh and (changed or not noted.exists() or noted.read_text() != read):  # read when they start
        manager.restart(
            [program.name for program in manager.programs if program.name != "redis" and program.name not in stopped]
        )
    _wait_for_programs(installation, manager)
    write_atomic(noted, read.encode())
    if note := manager.after_restart():
        installation.notes.append(note)
    names = ", ".join(program.name for program in manager.programs if program.name not in manager.unchecked)
    said = f"{names}: {'started' if changed or stopped else 'running already'} (by {manager.name})"
    return said + "".join(f"; {name}: not checked" for name in manager.unchecked)


def _wait_for_programs(installation: InstallationInProgress, manager: ServiceManager) -> None:
    """Until a dispatcher and the bot are at work in Redis."""
    end = time.monotonic() + START_SECONDS
    with installation.terminal.busy("Starting dispatcher and bot"):
        while True:
            state = ask_hmem(installation, "status")
            if state.get("workers") and state.get("bot"):
                return
            if time.monotonic() > end:
                who, program = ("the bot", "telegram") if state.get("workers") else ("the dispatcher", "dispatcher")
                where = f"journalctl -u hmem-{program} -n 20" if "systemd" in manager.name else "in its terminal"
                raise InstallationIncomplete(
                    f"{who} did not start within {START_SECONDS:.0f} s. Its log says why ({where})."
                )
            time.sleep(0.5)


def _greet(installation: InstallationInProgress) -> str:
    """Say hello to the owner's chat, unless a night has run since."""
    chat = installation.values["ALLOWED_CHATS"].split(",")[0].strip()
    if ask_hmem(installation, "status").get("last_night_run"):
        return "was sent before"
    telegram_bot.send(installation.settings(), int(chat), telegram_bot.READY)
    return f"sent to chat {chat}"


def _first_night(installation: InstallationInProgress) -> str:
    """One night now, so that everything that it needs has been proven before it runs alone."""
    if ask_hmem(installation, "status").get("last_night_run"):
        return "has run before"
    archive, command = installation.settings().hmem_night_dir / "archive", [str(BINARIES / "hmem-night"), "run"]
    restored = bool(archive_files(archive))
    if restored:  # of this host before Redis was lost, or a copy that was put there
        command = [str(BINARIES / "hmem"), "restore", str(archive)]
    with installation.terminal.busy("Running a first night"):
        said = run(
            command, "The first night", "hmem-night status shows more.", seconds=NIGHT_SECONDS, **how_ours_run(installation)
        )  # fmt: skip
    return said.strip().splitlines()[-1] if restored and said.strip() else "ended well"


def _examine(installation: InstallationInProgress) -> int:
    """The problems and warnings of the doctor with what to do, and how it goes on; the doctor's exit code."""
    terminal = installation.terminal
    with terminal.busy("Examining everything (hmem doctor)"):
        report = ask_hmem(installation, "doctor")
    findings, code = report.get("findings", []), int(report.get("exit_code", 1))
    show = {"problem": terminal.failed, "warning": terminal.note}
    for finding in findings:
        if finding["state"] in show:
            show[finding["state"]](finding["name"], f"{finding['sentence']} {finding['fix']}")
    if code == 0:
        terminal.done("doctor", f"{len(findings)} checks, no problem")
    for note in installation.notes:
        terminal.note("note", note)
    terminal.title("Ready" if code == 0 else "Installed, but see the problems above (hmem doctor shows them again)")
    hmem = "hmem" if shutil.which("hmem") == str(BINARIES / "hmem") else str(BINARIES / "hmem")
    terminal.say("  Write to your bot. Then:")
    undo = f"init --undo{' --user' if installation.as_user else ''}"
    further = {"status": "how it is doing", "web": "your page", undo: "uninstall, but keep conversations"}
    for words, what in further.items():
        terminal.say(f"    {hmem} {words:20} {what}")
    return code


def ask_hmem(installation: InstallationInProgress, command: str) -> dict[str, Any]:
    """What a command of ours prints with --json; {} if it does not."""
    words = [str(BINARIES / "hmem"), command, "--json"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=600, check=False, **how_ours_run(installation))
        return dict(json.loads(done.stdout))
    except (ValueError, subprocess.TimeoutExpired):
        return {}


def how_ours_run(installation: InstallationInProgress) -> dict[str, Any]:
    """In a clean environment; root's commands go on as the account that owns their directory."""
    return as_account(None, more={"HMEM_CONFIG": str(installation.layout.settings_file)})


#: Each returns what it did, for its line.
STEPS: tuple[Step, ...] = (
    Step("accounts", host.create_accounts),
    Step("directories", _directories),
    Step("packages", host.install_packages),
    Step("model", _model),
    Step("redis", _redis),
    Step("claude", claude_cli.provide_claude),
    Step("login", claude_cli.log_in),
    Step("settings", _settings),
    Step("services", _services),
    Step("message", _greet),
    Step("first night", _first_night),
)
