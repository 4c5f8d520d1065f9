"""`hmem upgrade` on real installations: it arrives, goes back by itself or when asked, and loses nothing, wherever it is killed."""

from __future__ import annotations

import hashlib
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from dispatcher.memory.store.kept import kept_words
from shared.config.installation import IMAGE_MARKER
from shared.errors import InvalidInput, NightRunning, UpgradeFailed
from shared.system.files import locked_file
from shared.system.formats import NAME
from tests.dispatcher.installation.upgrade.installed import (
    BROKEN,
    NEW,
    OLD,
    RAISED,
    Installed,
    change,
    git,
    in_a_checkout,
    in_an_environment,
    make_wheel,
)
from tests.support.machine import wait_for
from tests.support.world import World

CHAT = "9912"


def points(quick: str, *others: str) -> list[object]:
    """Crash points; those that take the same way as the first are slow tests."""
    return [quick, *(pytest.param(one, marks=pytest.mark.slow) for one in others)]


FORWARD = points("install", "keep", "migrate", "restart", "check")
BACK = points("set aside", "turned", "reinstall", "restart back", "store", "memories")


@pytest.fixture
def installed(light: World) -> Installed:
    """The old version in an environment, with a fact in its day store."""
    made = in_an_environment(light, make_wheel(light.root / "wheels", OLD))
    assert made.command("memory", "add", CHAT, "lives in Ghent").returncode == 0
    return made


def upgrades(world: World) -> list[Path]:
    return sorted(path for path in (world.root / "state/upgrades").iterdir() if path.is_dir())


def journal(world: World) -> dict[str, object]:
    found: dict[str, object] = orjson.loads((upgrades(world)[-1] / "upgrade.json").read_bytes())
    return found


def revision(world: World) -> str:
    with closing(sqlite3.connect(world.root / "state/day-store.sqlite")) as connection:
        return str(connection.execute("SELECT version_num FROM hmem_version").fetchone()[0])


def test_a_wheel_is_installed_and_undone(light: World, installed: Installed) -> None:
    wheel = make_wheel(light.root / "wheels", NEW)
    planned = installed.command("upgrade", "--dry-run", str(wheel))
    assert planned.returncode == 0, planned.stderr
    assert "installed by pip" in planned.stdout
    assert not (light.root / "state/upgrades").exists()
    done = installed.command("upgrade", str(wheel))
    assert done.returncode == 0, done.stderr
    assert f"Done: {OLD} is now {NEW}" in done.stdout
    assert installed.version == NEW
    modules = list((installed.prefix / "lib").rglob("dispatcher/installation/upgrade/*.py"))
    assert modules
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in modules), "the services' own users read it"
    assert installed.command("memory", "add", CHAT, "plays the cello").returncode == 0
    back = installed.command("upgrade", "--back")
    assert back.returncode == 0, back.stderr
    assert installed.version == OLD
    assert "lives in Ghent" in installed.memories()
    assert "plays the cello" in installed.memories(), "the format stayed, so the day store stays"
    again = installed.command("upgrade", "--back")
    assert again.returncode == 24
    assert "There is no upgrade to go back from" in again.stderr


def test_a_version_that_does_not_start_is_undone(light: World, installed: Installed) -> None:
    done = installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW, BROKEN)))
    assert done.returncode == UpgradeFailed.exit_code, done.stdout
    assert "hmem doctor does not run" in done.stderr
    assert f"{OLD} is installed again, nothing is lost" in done.stderr
    assert installed.version == OLD
    assert "lives in Ghent" in installed.memories()


def test_a_raised_day_store_is_put_back_with_what_came_in_since(light: World, installed: Installed) -> None:
    assert installed.command("memory", "add", CHAT, "owns a red bicycle").returncode == 0
    done = installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW, RAISED)))
    assert done.returncode == 0, done.stderr
    assert revision(light) == "0002"
    assert installed.command("memory", "add", CHAT, "plays the cello").returncode == 0
    assert installed.command("memory", "forget", CHAT, "1").returncode == 0
    back = installed.command("upgrade", "--back")
    assert back.returncode == 0, back.stderr
    assert revision(light) == "0001"
    said = installed.memories()
    assert "plays the cello" in said
    assert "red bicycle" in said
    assert "Ghent" not in said, "it was forgotten since"


@pytest.mark.parametrize("point", FORWARD)
def test_killed_on_the_way_it_goes_on(light: World, installed: Installed, point: str) -> None:
    wheel = make_wheel(light.root / "wheels", NEW, RAISED)
    killed = installed.command("upgrade", str(wheel), HMEM_CRASH_AT=f"upgrade:{point}")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    wheel.unlink()
    done = installed.command("upgrade")
    assert done.returncode == 0, done.stderr
    assert "was interrupted" in done.stdout
    assert (installed.version, revision(light)) == (NEW, "0002")
    assert "lives in Ghent" in installed.memories()


@pytest.mark.parametrize("point", BACK)
def test_killed_on_the_way_back_it_goes_on_going_back(light: World, installed: Installed, point: str) -> None:
    assert installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW, RAISED))).returncode == 0
    assert installed.command("memory", "add", CHAT, "plays the cello").returncode == 0
    killed = installed.command("upgrade", "--back", HMEM_CRASH_AT=f"upgrade:{point}")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    done = installed.command("upgrade")
    assert done.returncode == 0, done.stderr
    assert (installed.version, revision(light)) == (OLD, "0001")
    assert "lives in Ghent" in installed.memories()
    assert "plays the cello" in installed.memories()
    assert installed.memories().count("plays the cello") == 1


def test_killed_on_the_way_it_can_be_undone(light: World, installed: Installed) -> None:
    killed = installed.command(
        "upgrade", str(make_wheel(light.root / "wheels", NEW, RAISED)), HMEM_CRASH_AT="upgrade:migrate"
    )
    assert killed.returncode == -signal.SIGKILL
    done = installed.command("upgrade", "--back")
    assert done.returncode == 0, done.stderr
    assert (installed.version, revision(light)) == (OLD, "0001")
    assert "lives in Ghent" in installed.memories()


def test_where_nothing_starts_any_more_a_script_leads_back(light: World, installed: Installed) -> None:
    killed = installed.command(
        "upgrade", str(make_wheel(light.root / "wheels", NEW, BROKEN)), HMEM_CRASH_AT="upgrade:install"
    )
    assert killed.returncode == -signal.SIGKILL
    assert installed.command("status").returncode == 1, "it does not start"
    subprocess.run(["sh", str(upgrades(light)[-1] / "back.sh")], check=True, capture_output=True)
    done = installed.command("upgrade", "--back")
    assert done.returncode == 0, done.stderr
    assert installed.version == OLD
    assert "lives in Ghent" in installed.memories()


def test_a_raised_directory_cannot_be_taken_back_and_nothing_is_changed(light: World, installed: Installed) -> None:
    assert installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW))).returncode == 0
    (light.root / "state" / NAME).write_bytes(orjson.dumps({"format": 2, "program": NEW}))
    done = installed.command("upgrade", "--back")
    assert done.returncode == UpgradeFailed.exit_code
    assert (
        "could not read what is in state since the upgrade, so there is no way back, and nothing was changed"
        in done.stderr
    )
    assert installed.version == NEW


def test_what_is_forgotten_is_in_no_copy_that_an_upgrade_keeps(light: World, installed: Installed) -> None:
    done = installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW)))
    assert done.returncode == 0, done.stderr
    state = light.root / "state"
    assert [path.name for path in kept_words(state)] == ["day-store.sqlite"]
    forgotten = light.command("hmem", "forget", "--matching", "Ghent", "--chat", CHAT, "--yes", "--later", check=False)
    assert "day-store" not in forgotten.stderr, forgotten.stderr
    assert kept_words(state) == []
    assert not [path for path in state.rglob("*") if path.is_file() and b"Ghent" in path.read_bytes()]


def test_what_is_forgotten_is_in_no_half_made_copy_of_a_killed_upgrade(light: World, installed: Installed) -> None:
    killed = installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW)), HMEM_CRASH_AT="store:copied")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    state, folder = light.root / "state", upgrades(light)[-1]
    assert [path.name for path in kept_words(state)] == [".day-store.sqlite.tmp"]
    for name in (".day-store.sqlite.tmp-journal", ".day-store.dump.tmp", ".day-store-since-9912.jsonl.0123.tmp"):
        (folder / name).write_bytes(b"lives in Ghent")
    (state / ".day-store.sqlite.before-0002.tmp").write_bytes(b"lives in Ghent")
    light.command("hmem", "forget", "--matching", "Ghent", "--chat", CHAT, "--yes", "--later", check=False)
    assert kept_words(state) == []
    assert not [path for path in state.rglob("*") if path.is_file() and b"Ghent" in path.read_bytes()]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("", "so name what to install"), ("nothing.whl", "is no wheel"), (f"hcli_memory-{OLD}-py3-none-any.whl", "is installed already"),
     ("hcli_memory-0.0.9-py3-none-any.whl", "is older than"), ("other-2.0-py3-none-any.whl", "is not a wheel of hcli-memory")],
)  # fmt: skip
def test_what_cannot_be_installed_is_refused(light: World, installed: Installed, name: str, sentence: str) -> None:
    if name and name != "nothing.whl":
        (light.root / name).touch()
    done = installed.command("upgrade", *([name] if name else []))
    assert done.returncode == UpgradeFailed.exit_code
    assert sentence in done.stderr
    assert not upgrades(light)


def test_in_an_image_it_refuses_and_notes_nothing(light: World, installed: Installed) -> None:
    (installed.prefix / IMAGE_MARKER).touch()
    for arguments in ([str(make_wheel(light.root / "wheels", NEW))], ["--back"], ["--dry-run"]):
        done = installed.command("upgrade", *arguments)
        assert done.returncode == UpgradeFailed.exit_code
        assert "Build the newer image and start that" in done.stderr
    assert not (light.root / "state/upgrades").exists()


def test_no_upgrade_while_a_night_runs(light: World, installed: Installed) -> None:
    from nightly.night.lease import night_lock

    with night_lock(light.settings()):
        done = installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW)))
    assert done.returncode == NightRunning.exit_code
    assert "A night is running on this host, so nothing was changed" in done.stderr


def test_the_night_host_comes_second(light: World, installed: Installed) -> None:
    light.redis.set("hcli:mem:format", orjson.dumps({"format": 1, "program": OLD, "release": 7}))
    wheel, more = (
        make_wheel(light.root / "wheels", NEW),
        {"PUBLISH_TARGET": "day.example:", "RELEASE_COMMAND": "ssh day.example"},
    )
    done = installed.command("upgrade", str(wheel), **more)
    assert done.returncode == UpgradeFailed.exit_code
    assert "Run hmem upgrade on the day host first" in done.stderr
    light.redis.set("hcli:mem:format", orjson.dumps({"format": 1, "program": NEW, "release": 7}))
    assert installed.command("upgrade", str(wheel), **more).returncode == 0


def test_the_night_host_goes_back_from_an_address_whose_version_is_newer(light: World, installed: Installed) -> None:
    """What an address has is known once it is installed."""
    light.redis.set("hcli:mem:format", orjson.dumps({"format": 1, "program": OLD, "release": 7}))
    wheel = make_wheel(light.root / "wheels", NEW)
    address = (
        f"{wheel.as_uri()}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}"  # as a git address: no file's name
    )
    done = installed.command("upgrade", address, PUBLISH_TARGET="day.example:", RELEASE_COMMAND="ssh day.example")
    assert done.returncode == UpgradeFailed.exit_code, done.stdout
    assert "The upgrade failed and was undone" in done.stderr
    assert "Run hmem upgrade on the day host first" in done.stderr
    assert installed.version == OLD


# ── a checkout, and services ─────────────────────────────────────────────────────────────────────────────────────────

SYSTEMCTL = """#!/bin/sh
case "$*" in
  "is-active hmem-dispatcher.service") echo active ;;
  "restart hmem-dispatcher") echo "$*" >> {log}; exit {code} ;;
  *) echo inactive; exit 3 ;;
esac
"""


def systemctl(world: World, code: int = 0) -> dict[str, str]:
    """A systemctl that knows the dispatcher's unit as running, and notes restarts."""
    folder = world.root / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "systemctl").write_text(SYSTEMCTL.format(log=world.root / "restarts", code=code))
    (folder / "systemctl").chmod(0o755)
    return {"PATH": f"{folder}:{world.variables()['PATH']}"}


def test_a_checkout_follows_its_branch_and_services_are_restarted(light: World) -> None:
    installed, origin = in_a_checkout(light)
    checkout, first = light.root / "checkout", git(origin, "rev-parse", "HEAD")
    second = change(origin, {"news": "second"})
    done = installed.command("upgrade", **systemctl(light))
    assert done.returncode == 0, done.stderr
    assert git(checkout, "rev-parse", "HEAD") == second
    assert (light.root / "restarts").read_text() == "restart hmem-dispatcher\n"
    back = installed.command("upgrade", "--back", **systemctl(light))
    assert back.returncode == 0, back.stderr
    assert git(checkout, "rev-parse", "HEAD") == first
    assert (checkout / ".venv/setups").read_text().split() == [second, first]
    assert (light.root / "restarts").read_text().count("restart") == 2
    assert git(checkout, "branch", "--list", "hmem-*") == ""


@pytest.mark.parametrize("by_script", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_commits_that_an_upgrade_did_not_bring_stay_in_a_branch(light: World, *, by_script: bool) -> None:
    installed, origin = in_a_checkout(light)
    checkout, first = light.root / "checkout", git(origin, "rev-parse", "HEAD")
    change(origin, {"news": "second"})
    assert installed.command("upgrade").returncode == 0
    own = change(checkout, {"of the owner": "a local change"})
    if by_script:
        subprocess.run(["sh", str(upgrades(light)[-1] / "back.sh")], check=True, capture_output=True)
    done = installed.command("upgrade", "--back")
    assert done.returncode == 0, done.stderr
    assert (
        by_script or "commits that the upgrade did not bring. They stay in the branch hmem-before-back-" in done.stdout
    )
    assert git(checkout, "rev-parse", "HEAD") == first
    (branch,) = git(checkout, "branch", "--list", "hmem-before-back-*").split()
    assert git(checkout, "rev-parse", branch) == own


@pytest.mark.parametrize("point", points("halfway", "install", "restart"))
def test_a_checkout_killed_on_the_way_goes_on(light: World, point: str) -> None:
    installed, origin = in_a_checkout(light)
    second = change(origin, {"news": "second"})
    killed = installed.command("upgrade", HMEM_CRASH_AT=f"upgrade:{point}", **systemctl(light))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = installed.command("upgrade", **systemctl(light))
    assert done.returncode == 0, done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == second
    assert (light.root / "checkout/.venv/setups").read_text().split()[-1] == second


@pytest.mark.parametrize("point", points("halfway back", "reinstall"))
def test_a_checkout_killed_on_the_way_back_goes_on_going_back(light: World, point: str) -> None:
    installed, origin = in_a_checkout(light)
    first = git(origin, "rev-parse", "HEAD")
    change(origin, {"news": "second"})
    assert installed.command("upgrade", **systemctl(light)).returncode == 0
    killed = installed.command("upgrade", "--back", HMEM_CRASH_AT=f"upgrade:{point}", **systemctl(light))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = installed.command("upgrade", **systemctl(light))
    assert done.returncode == 0, done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == first
    assert (light.root / "checkout/.venv/setups").read_text().split()[-1] == first


def test_a_service_that_does_not_come_back_undoes_the_upgrade(light: World) -> None:
    installed, origin = in_a_checkout(light)
    first = git(origin, "rev-parse", "HEAD")
    change(origin, {"news": "second"})
    done = installed.command("upgrade", **systemctl(light, code=1))
    assert done.returncode == UpgradeFailed.exit_code
    assert "could not be restarted" in done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == first


def test_a_pull_that_cannot_be_done_leaves_all_as_it_was(light: World) -> None:
    installed, origin = in_a_checkout(light)
    first = git(origin, "rev-parse", "HEAD")
    change(origin, {"scripts/setup": "#!/bin/sh\nexit 1\n"})
    done = installed.command("upgrade")
    assert done.returncode == UpgradeFailed.exit_code
    assert "scripts/setup failed" in done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == first
    (light.root / "checkout/news").write_text("of the owner")
    change(origin, {"news": "second"})
    done = installed.command("upgrade")
    assert done.returncode == UpgradeFailed.exit_code
    assert git(light.root / "checkout", "rev-parse", "HEAD") == first
    assert (light.root / "checkout/news").read_text() == "of the owner"


@pytest.mark.parametrize("named", [False, True])
def test_a_checkout_on_the_night_host_is_asked_for_its_version_first(light: World, *, named: bool) -> None:
    installed, origin = in_a_checkout(light)
    light.redis.set("hcli:mem:format", orjson.dumps({"format": 1, "program": OLD, "release": 7}))
    first = git(origin, "rev-parse", "HEAD")
    second = change(origin, {"pyproject.toml": f'[project]\nversion = "{NEW}"\n'})
    target, more = (
        [f"{origin.as_uri()}#main"] if named else [],
        {"PUBLISH_TARGET": "day.example:", "RELEASE_COMMAND": "ssh day.example"},
    )
    done = installed.command("upgrade", *target, **more)
    assert done.returncode == UpgradeFailed.exit_code, done.stdout
    assert "Run hmem upgrade on the day host first" in done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == first
    assert not upgrades(light), "nothing was changed"
    light.redis.set("hcli:mem:format", orjson.dumps({"format": 1, "program": NEW, "release": 7}))
    done = installed.command("upgrade", *target, **more)
    assert done.returncode == 0, done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == second


def test_what_a_killed_upgrade_started_keeps_others_away_until_it_ends(light: World) -> None:
    from nightly.night.lease import night_lock

    with night_lock(light.settings()):
        pass  # its file is there
    installed, origin = in_a_checkout(light)
    started, go = light.root / "started", light.root / "go"
    second = change(origin, {"scripts/setup": f"#!/bin/sh\ntouch {started}\nwhile [ ! -e {go} ]; do sleep 0.1; done\n"})
    with subprocess.Popen(
        [str(installed.hmem), "upgrade"], env=light.variables(), stdout=subprocess.DEVNULL
    ) as process:
        wait_for(started.exists, "scripts/setup")
        process.kill()
    refused = installed.command("upgrade")
    assert refused.returncode == InvalidInput.exit_code, refused.stdout
    assert "An earlier hmem upgrade was killed, but a program that it had started" in refused.stderr
    with pytest.raises(NightRunning), night_lock(light.settings()):
        pass
    go.touch()
    wait_for(lambda: free(light), "scripts/setup to end")
    done = installed.command("upgrade")
    assert done.returncode == 0, done.stderr
    assert git(light.root / "checkout", "rev-parse", "HEAD") == second


def free(world: World) -> bool:
    """Whether nobody holds the lock of upgrades."""
    try:
        with locked_file(world.root / "state/upgrades/lock", wait=False):
            return True
    except BlockingIOError:
        return False
