"""`hmem upgrade` of a checkout, with services that it restarts; and what a killed one left running."""

from __future__ import annotations

import signal
import subprocess

import orjson
import pytest

from shared.errors import InvalidInput, NightRunning, UpgradeFailed
from shared.system.files import locked_file
from tests.dispatcher.installation.upgrade.installed import NEW, OLD, change, git, in_a_checkout, points, upgrades
from tests.support.machine import wait_for
from tests.support.world import World

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
    assert "news" in done.stderr, "git says which file is in the way"


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
