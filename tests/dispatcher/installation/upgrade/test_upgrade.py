"""`hmem upgrade` on real installations: it arrives, goes back by itself or when asked, and loses nothing, wherever it is killed."""

from __future__ import annotations

import hashlib
import signal
import sqlite3
import subprocess
from contextlib import closing

import orjson
import pytest

from dispatcher.memory.store.kept import kept_words
from shared.config.installation import IMAGE_MARKER
from shared.errors import NightRunning, UpgradeFailed
from shared.system.formats import NAME
from tests.dispatcher.installation.upgrade.installed import (
    BROKEN,
    NEW,
    OLD,
    RAISED,
    Installed,
    in_an_environment,
    make_wheel,
    points,
    upgrades,
)
from tests.support.world import World

CHAT = "9912"


FORWARD = points("install", "keep", "migrate", "restart", "check")
BACK = points("set aside", "turned", "reinstall", "restart back", "store", "memories")


@pytest.fixture
def installed(light: World) -> Installed:
    """The old version in an environment, with a fact in its day store."""
    made = in_an_environment(light, make_wheel(light.root / "wheels", OLD))
    assert made.command("memory", "add", CHAT, "lives in Ghent").returncode == 0
    return made


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
    assert revision(light) == "0005"
    assert installed.command("memory", "add", CHAT, "plays the cello").returncode == 0
    assert installed.command("memory", "forget", CHAT, "1").returncode == 0
    back = installed.command("upgrade", "--back")
    assert back.returncode == 0, back.stderr
    assert revision(light) == "0004"
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
    assert (installed.version, revision(light)) == (NEW, "0005")
    assert "lives in Ghent" in installed.memories()


@pytest.mark.parametrize("point", BACK)
def test_killed_on_the_way_back_it_goes_on_going_back(light: World, installed: Installed, point: str) -> None:
    assert installed.command("upgrade", str(make_wheel(light.root / "wheels", NEW, RAISED))).returncode == 0
    assert installed.command("memory", "add", CHAT, "plays the cello").returncode == 0
    killed = installed.command("upgrade", "--back", HMEM_CRASH_AT=f"upgrade:{point}")
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    done = installed.command("upgrade")
    assert done.returncode == 0, done.stderr
    assert (installed.version, revision(light)) == (OLD, "0004")
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
    assert (installed.version, revision(light)) == (OLD, "0004")
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
    (state / ".day-store.sqlite.before-0004.tmp").write_bytes(b"lives in Ghent")
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
