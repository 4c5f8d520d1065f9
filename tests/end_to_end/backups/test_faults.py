"""Backups that are killed, locked, damaged, given another password, or asked for where there is none."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.end_to_end.backups.hosts import WAITING, BackedUp, backed_up, empty_host, lived_in
from tests.support.day.health import ask
from tests.support.machine import wait_for
from tests.support.night.archives import texts
from tests.support.night.mirrors import verify
from tests.support.world import World


@pytest.fixture
def kept(light: World, tmp_path: Path) -> BackedUp:
    lived_in(light)
    made = backed_up(light, tmp_path)
    made.backup("--init")
    return made


@pytest.fixture
def other(light: World, tmp_path: Path) -> Iterator[World]:
    with empty_host(light, tmp_path / "other") as host:
        yield host


def left_behind(world: World) -> list[Path]:
    folder = world.root / "state" / "backups"
    return [path for name in ("staging", "trial") for path in (folder / name).glob("*")]


@pytest.mark.parametrize("point", ["backup:redis-taken", "backup:release-taken", "backup:staged", "backup:stored"])
def test_a_backup_that_is_killed_leaves_nothing_that_the_next_does_not_remove(kept: BackedUp, point: str) -> None:
    before = verify(kept.world)
    done = kept.backup(check=False, HMEM_CRASH_AT=point)
    assert done.returncode == -signal.SIGKILL
    assert len(left_behind(kept.world)) == 1
    kept.backup()
    assert left_behind(kept.world) == []
    assert verify(kept.world) == before


def test_a_restore_that_is_killed_at_every_point_goes_on(kept: BackedUp, other: World) -> None:
    points = [
        "begun",
        "forgotten",
        "archive",
        "day_store",
        "release-copied",
        "release",
        "receipts",
        "redis",
        "settings",
    ]
    for point in points:
        done = kept.restore(other, check=False, HMEM_CRASH_AT=f"restore:{point}")
        assert done.returncode == -signal.SIGKILL, (point, done.stderr)
    kept.restore(other)  # without --yes: it is the one that was begun
    assert left_behind(other) == []
    assert texts(other) == texts(kept.world)
    assert verify(other)["turns"] == verify(kept.world)["turns"]
    assert WAITING in str(other.redis.get("hcli:memory:t3:user"))
    assert other.command("hmem", "memory", "list", "9912").stdout.count("Pushok") == 1
    assert kept.restore(other, check=False).returncode == 24  # it is done, so this would be another one


def test_a_restore_that_was_killed_goes_on_although_there_is_a_newer_backup(kept: BackedUp, other: World) -> None:
    first = json.loads(kept.restic("snapshots", "--json"))[0]["id"]
    assert kept.restore(other, check=False, HMEM_CRASH_AT="restore:archive").returncode == -signal.SIGKILL
    kept.backup()
    assert json.loads(kept.restore(other, "--json").stdout)["snapshot"] == first
    done = json.loads(kept.restore(other, "--yes", "--json").stdout)
    assert done["snapshot"] == json.loads(kept.restic("snapshots", "--json"))[1]["id"], (
        "the next one is another restore"
    )


def test_a_restore_waits_for_no_dispatcher_that_runs(kept: BackedUp, other: World) -> None:
    dispatcher = other.start_dispatcher()
    for options in ((), ("--yes",)):
        done = kept.restore(other, *options, check=False)
        assert (done.returncode, "dispatcher is running" in done.stderr) == (24, True), done.stderr
    assert not other.night_dir.exists()
    dispatcher.stop(signal.SIGKILL)
    kept.restore(other)  # its lease has not run out yet, but it is seen to be gone


def test_another_password_is_said(kept: BackedUp, other: World) -> None:
    kept.password.write_text("another-password\n")
    for done in (kept.backup(check=False), kept.backup("--verify", check=False), kept.restore(other, check=False)):
        assert done.returncode == 55
        assert "BACKUP_PASSWORD_FILE" in done.stderr
    assert not other.night_dir.exists()


@contextmanager
def working(kept: BackedUp) -> Iterator[subprocess.Popen[bytes]]:
    """Another restic at work in the repository, which holds its lock."""
    environment = kept.world.variables() | {
        "RESTIC_REPOSITORY": str(kept.to), "RESTIC_PASSWORD_FILE": str(kept.password),
    }  # fmt: skip
    with subprocess.Popen(["restic", "backup", "--stdin"], env=environment, stdin=subprocess.PIPE) as process:
        wait_for(lambda: any((kept.to / "locks").iterdir()), "restic's lock")
        yield process
        process.kill()


def test_a_lock_is_no_damage_and_what_to_do_is_said(kept: BackedUp) -> None:
    with working(kept):
        done = kept.backup("--verify", check=False)
        assert done.returncode == 55, done.stderr
        assert "restic unlock" in done.stderr
        kept.backup()  # two may add at the same time
    kept.restic("unlock")
    kept.backup("--verify")


def test_a_backup_that_was_made_is_known_although_no_older_one_can_be_removed(kept: BackedUp) -> None:
    with working(kept):
        done = kept.backup("--keep-daily", "3", check=False)
    assert (done.returncode, "was made, but no older one was removed" in done.stderr) == (55, True)
    known = json.loads((kept.world.root / "state" / "backups" / "known.json").read_bytes())["repositories"]
    there = json.loads(kept.restic("snapshots", "--json", "--no-lock"))
    assert (len(there), known[str(kept.to)]["snapshots"]) == (2, 2)
    assert known[str(kept.to)]["backed_up_at"] == datetime.fromisoformat(there[-1]["time"]).timestamp()


def flip(path: Path) -> None:
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_repository_is_noticed(kept: BackedUp) -> None:
    pack = max((path for path in (kept.to / "data").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    flip(pack)
    done = kept.backup("--verify", check=False)
    assert done.returncode == 56
    assert "is not good" in done.stderr
    _, found = ask(kept.world, BACKUP_TO=str(kept.to))
    assert found["backup"].state == "warning"
    assert "not good" in found["backup"].sentence


FULL = {
    "stats": """echo '{"total_size":1000000000000000}'""",  # no disk has as much
    "restore": "echo 'Fatal: write: no space left on device' >&2; exit 1",
}


@pytest.mark.parametrize("verb", ["stats", "restore"])
def test_a_full_disk_of_this_host_says_nothing_of_the_backup(kept: BackedUp, other: World, verb: str) -> None:
    program = kept.world.root / "full" / "restic"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/bash\nPATH=${{PATH#*:}}\nif [[ " $* " == *" {verb} "* ]]; then {FULL[verb]}; else exec restic "$@"; fi\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{kept.world.variables()['PATH']}"
    known = kept.world.root / "state" / "backups" / "known.json"
    before = known.read_bytes()
    done = kept.backup("--verify", check=False, PATH=path)
    assert (done.returncode, str(known.parent) in done.stderr) == (55, True), done.stderr
    assert known.read_bytes() == before
    assert kept.restore(other, check=False, PATH=path).returncode == 55
    assert not other.night_dir.exists()


def test_a_damage_that_was_backed_up_is_noticed(kept: BackedUp, other: World) -> None:
    """restic keeps what it is given, whatever that is; the trial looks into it."""
    flip(kept.world.night_dir / "archive" / "seg-1.jsonl")
    kept.backup()
    done = json.loads(kept.backup("--verify", "--json", check=False).stdout)
    assert not done["good"]
    assert "seg-1.jsonl" in " ".join(done["faults"])
    assert kept.restore(other, check=False).returncode == 14
    assert not (other.night_dir / "archive").exists()


def test_a_damaged_release_is_noticed(kept: BackedUp) -> None:
    part = next((kept.world.memory_dir / "current" / "lexical").resolve().glob("*.sqlite"))
    flip(part)
    kept.backup()
    done = kept.backup("--verify", check=False)
    assert done.returncode == 56
    assert part.name in done.stderr


def test_two_backups_at_once_are_refused(kept: BackedUp) -> None:
    from dispatcher.backups.record import alone

    with alone(kept.world.root / "state"):
        done = kept.backup(check=False)
    assert done.returncode == 55
    assert "Wait" in done.stderr


def test_what_is_missing_is_said_in_a_sentence(light: World, tmp_path: Path) -> None:
    password = tmp_path / "password"
    light.command("hmem", "backup", "--new-password", str(password))
    assert light.command("hmem", "backup", "--new-password", str(password), check=False).returncode == 24
    own = {"BACKUP_PASSWORD_FILE": str(password)}
    cases: tuple[tuple[tuple[str, ...], dict[str, str], int, str], ...] = (
        (("hmem", "backup"), own, 10, "BACKUP_TO"),
        (("hmem", "backup", str(tmp_path / "r")), {}, 10, "BACKUP_PASSWORD_FILE is not set"),
        (("hmem", "backup", str(tmp_path / "r")), own, 55, "--init"),
        (("hmem", "backup", str(tmp_path / "r"), "--verify"), own, 55, "--init"),
        (("hmem", "restore", str(tmp_path / "r")), own, 55, "no restic repository"),
        (("hmem", "backup", str(tmp_path / "r")), {**own, "PATH": str(tmp_path)}, 55, "apt install restic"),
    )
    for words, more, code, sentence in cases:
        done = light.command(*words, check=False, **more)
        assert (done.returncode, sentence in done.stderr) == (code, True), (words, done.stderr)
    password.chmod(0o644)
    assert light.command("hmem", "backup", str(tmp_path / "r"), check=False, **own).returncode == 10


def test_a_restic_that_is_too_old_is_refused(light: World, tmp_path: Path) -> None:
    password, program = tmp_path / "password", tmp_path / "restic"
    light.command("hmem", "backup", "--new-password", str(password))
    program.write_text("#!/bin/sh\necho restic 0.9.4 compiled with go1.11\n")
    program.chmod(0o755)
    more = {"BACKUP_PASSWORD_FILE": str(password), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = light.command("hmem", "backup", str(tmp_path / "r"), check=False, **more)
    assert (done.returncode, "too old" in done.stderr) == (55, True)


def test_the_doctor_says_what_is_missing(light: World, tmp_path: Path) -> None:
    _, found = ask(light)
    assert found["backup"].state == "ok"
    _, found = ask(light, BACKUP_TO=str(tmp_path / "r"))
    assert (found["backup"].state, "no backup has been made" in found["backup"].sentence) == ("warning", True)
