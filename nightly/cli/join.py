"""`hmem-night join`: this host becomes the night's host of a day host, which it reaches by ssh with one key that may only deliver releases there.

Safe to rerun: the key stays, and what was agreed is tried and written again.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

from shared.config.settings import Settings, load_settings, settings_from
from shared.config.sources import DEFAULT_CONFIG, is_of_init, settings_file, user_settings_file, with_values
from shared.delivery.joining import DAY, answer_in
from shared.embedding.open import is_made_here, make_model
from shared.errors import InstallationIncomplete, InvalidInput, NightRunning, ReleaseRefused
from shared.system.files import write_atomic

PROGRAM = str(Path(sys.executable).parent / "hmem-night")
_AGAIN = "Then run hmem-night join again."
#: What is written here: how nights reach the day host by ssh, and the service.
_TEMPLATES = Path(__file__).parent / "units"


def join_day(day: str, line: str) -> None:
    """The whole of it; `line` is "" to be asked for."""
    file = settings_file() or (DEFAULT_CONFIG if os.geteuid() == 0 else user_settings_file())
    if file is None or is_of_init(file):
        raise InvalidInput(
            "This user has no home, or hmem init has set up a day host here. Run join as another user, or on another host."
        )
    if missing := [name for name in ("ssh", "ssh-keygen", "rsync") if shutil.which(name) is None]:
        raise InstallationIncomplete(
            f"{', '.join(missing)} is not installed here. Install openssh-client and rsync. {_AGAIN}"
        )
    folder = file.parent / "night-ssh"
    public = _key(folder)
    answer = answer_in(line or _asked(public, day))
    _write_ssh(folder, day, answer)
    values = _values(file, folder, answer)
    settings = settings_from({name.lower(): value for name, value in values.items()})
    _try_everything(settings, day)
    if is_made_here(settings):
        typer.echo(f"✓ embedding model: {settings.model_name}, {'made' if make_model() else 'there already'}")
    before = file.read_text("utf-8") if file.exists() else "# Written by hmem-night join; yours to change.\n"
    write_atomic(file, with_values(before, values, file).encode())
    settings.hmem_night_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    typer.echo(_schedule(settings, file))
    typer.echo(f"Joined; the settings are in {file}. Try a night now: {PROGRAM} run")


def _key(folder: Path) -> str:
    """The public half; made once."""
    path = folder / "key"
    if not path.with_suffix(".pub").exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # of a run that was killed
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text("ascii").split()[:2])


def _asked(public: str, day: str) -> str:
    typer.echo(
        f"Run this on the day host (with sudo, if hmem init ran with it):\n\n  hmem admit '{public}'\n", err=True
    )
    typer.echo("Then paste the line that it prints, and press Enter:", err=True)
    if not (given := sys.stdin.readline()).strip():
        raise InstallationIncomplete(f"No line was given. Run that command there, then: {PROGRAM} join {day} LINE")
    return given


def _write_ssh(folder: Path, day: str, answer: Mapping[str, Any]) -> None:
    host, colon, port = day.rpartition(":")
    host, port = (host, port) if colon and port.isdigit() else (day, "22")
    template = (_TEMPLATES / "ssh_config").read_text("utf-8")
    config = template.format(day=DAY, host=host.strip("[]"), port=port, account=answer["account"], folder=folder)
    write_atomic(folder / "config", config.encode())
    write_atomic(folder / "known_hosts", "".join(f"{DAY} {key}\n" for key in answer["host_keys"]).encode())


def _values(file: Path, folder: Path, answer: Mapping[str, Any]) -> dict[str, str]:
    """The settings that this host needs; its directory of nights stays where it is."""
    known = load_settings() if file.exists() else None
    place = Path("/var/lib/hmem-night") if file == DEFAULT_CONFIG else Path.home() / ".local/share/hmem/night"
    if known and "hmem_night_dir" in known.model_fields_set:
        place = known.hmem_night_dir
    url, ssh = str(answer["redis_url"]), shlex.join(["ssh", "-F", str(folder / "config")])
    if f"{DAY}/" in url:
        url += f"?ssh={quote(str(folder / 'config'))}"
    places = {
        "HMEM_NIGHT_DIR": place,
        "HMEM_MEMORY_DIR": place.with_name("memory"),
        "HMEM_STATE_DIR": place.with_name("state"),
    }
    publish = {"REDIS_URL": url, "PUBLISH_TARGET": f"{DAY}:", "PUBLISH_SSH": ssh, "RELEASE_COMMAND": f"{ssh} {DAY}"}
    return {**answer["settings"], **{name: str(path) for name, path in places.items()}, **publish}


def _try_everything(settings: Settings, day: str) -> None:
    """Verbs, Redis, and a release that is delivered and thrown away. Each failure is a sentence of ours."""
    from nightly.night.target import ConnectionBroken, ssh_target
    from shared.release.manifest import MANIFEST
    from shared.wire import keys
    from shared.wire.client import asking_once, open_redis

    target = ssh_target(settings, f"{DAY}:")
    try:
        newest = target.standing()[1]
    except ConnectionBroken as error:
        raise InstallationIncomplete(_unreachable(day, str(error))) from error
    typer.echo("✓ verbs: the day host answers")
    with closing(open_redis(settings.redis_url, asking_once(30.0))) as client:
        if client.get(keys.NIGHT_OWNER):
            raise NightRunning(f"A night of this installation is running. Wait until it has ended. {_AGAIN}")
        client.incrby(keys.NIGHT_RUN, 0)  # so the day host knows before the first one that nights are made elsewhere
    typer.echo("✓ Redis: answers")
    with tempfile.TemporaryDirectory(prefix="hmem-trial-") as stage:
        (Path(stage) / MANIFEST).write_bytes(b'{"trial": true}\n')
        try:
            target.bring(Path(stage), newest + 1, accept=False)
        except ReleaseRefused as error:
            if f"received as {newest + 1}." not in str(error):  # else it has arrived whole, and is seen to be none
                raise
    target.prune()
    typer.echo("✓ delivery: a trial has arrived there, and was thrown away")


def _unreachable(day: str, said: str) -> str:
    """What is wrong with ssh, and what to do."""
    if "Permission denied" in said:
        why = "its sshd does not accept the key. Run hmem admit there with this host's key, and let sshd allow that account (AllowUsers)"
    elif "verification failed" in said or "IDENTIFICATION" in said:
        why = "another sshd answers there than that of /etc/ssh. Correct the address, or name its keys to hmem admit (--host-keys)"
    else:
        why = f"{said.partition(' Check that')[0].rstrip('.')}. Give an address and port at which this host reaches it"
    return f"The day host cannot be reached at {day}: {why}. {_AGAIN}"


def _schedule(settings: Settings, file: Path) -> str:
    """Start the schedule under systemd, of the system for /etc/hmem and else of the user; where there is none, the lines for cron."""
    system = file == DEFAULT_CONFIG
    systemctl = ["systemctl"] if system else ["systemctl", "--user"]
    if (
        shutil.which("systemctl") is None
        or subprocess.run([*systemctl, "show-environment"], capture_output=True, check=False).returncode
    ):
        start = f"HMEM_CONFIG={shlex.quote(str(file))} {PROGRAM}"
        return f"No systemd runs here. Put these two lines into the crontab:\n{settings.night_cron} {start} run\n17 * * * * {start} capture"
    folder = Path("/etc/systemd/system") if system else Path.home() / ".config/systemd/user"
    folder.mkdir(parents=True, exist_ok=True)
    template = (_TEMPLATES / "hmem-night.service").read_text("utf-8")
    unit = template.format(program=PROGRAM, settings=file, wanted="multi-user.target" if system else "default.target")
    (folder / "hmem-night.service").write_text(unit, encoding="utf-8")
    commands = [
        [*systemctl, *words] for words in (["daemon-reload"], ["enable", "hmem-night"], ["restart", "hmem-night"])
    ]
    for command in commands if system else [*commands, ["loginctl", "enable-linger"]]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InstallationIncomplete(
                f"{shlex.join(command)} failed: {done.stderr.strip().rstrip('.')}. Correct that. {_AGAIN}"
            )
    return f"✓ schedule: nights at {settings.night_cron} ({settings.chat_timezone}) and captures each hour, by hmem-night.service"
