"""Our directories are used only where they are ours: no links in their place, and nobody else may write there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dispatcher.chat_data.forget.steps import open_context
from dispatcher.health.checks.host import check_directories
from dispatcher.health.findings import Setup
from dispatcher.releases.manage import prune
from shared.config.ownership import OURS, trusted_owners, unsafe
from shared.delivery.receiver import Receiver
from shared.errors import StorageError
from shared.system.files import own_dir
from tests.support.world import World

NOBODY = 65534
#: Of each setting's directories one that is made early, and one that is made late.
PLACES = [(setting, name) for setting, names in OURS.items() for name in (names[0], names[-1])]


def root_of(world: World, setting: str) -> Path:
    root: Path = getattr(world.settings(), setting)
    return root


def use(world: World, setting: str) -> None:
    """What begins to work with these directories."""
    if setting == "hmem_state_dir":
        with open_context(world.settings(), world.redis, print):
            pass
    else:
        world.night()


def doctor(world: World) -> str:
    try:
        return check_directories(Setup(world.settings(), world.redis)).state
    except StorageError as error:
        return str(error)


@pytest.mark.parametrize(("setting", "name"), PLACES)
def test_a_link_in_the_place_of_a_directory_is_refused_and_what_it_leads_to_stays(
    light: World, setting: str, name: str
) -> None:
    light.say("t1", "something")
    precious = light.root / "precious" / "1"
    precious.mkdir(parents=True)
    (precious / "file").write_text("precious")
    path = root_of(light, setting) / name
    path.parent.mkdir(parents=True)
    path.symlink_to(precious.parent)
    with pytest.raises(StorageError, match=f"{path} is a link to {precious.parent}, so .* Remove the link"):
        use(light, setting)
    assert (precious / "file").read_text() == "precious"
    assert [p.name for p in precious.parent.iterdir()] == ["1"], "nothing was written there either"
    assert f"{path} is a link" in doctor(light)
    path.unlink()
    assert doctor(light) == "ok"


@pytest.mark.parametrize(
    ("setting", "name", "mode"),
    [(setting, name, mode) for setting, names in OURS.items() for name, mode in ((".", 0o707), (names[0], 0o770))],
)
def test_a_directory_that_others_may_write_to_is_refused(light: World, setting: str, name: str, mode: int) -> None:
    light.say("t1", "something")
    path = root_of(light, setting) / name
    path.mkdir(parents=True)
    path.chmod(mode)
    with pytest.raises(
        StorageError,
        match=rf"{path} is writable by users other than its owner .*mode 0{mode:o}.* \(chmod go-w {path}\)",
    ):
        use(light, setting)
    assert f"{path} is writable by users other than its owner" in doctor(light)
    path.chmod(mode & ~0o022)
    assert doctor(light) == "ok"


def test_the_doctor_looks_at_every_directory_of_ours(light: World) -> None:
    for setting, names in OURS.items():
        for name in names:
            path = root_of(light, setting) / name
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o770)
            assert f"{path} is writable by users other than its owner" in doctor(light)
            path.chmod(0o700)
    assert doctor(light) == "ok"


def test_a_command_says_it_in_one_sentence_and_ends_with_15(light: World) -> None:
    precious, state = light.root / "precious", root_of(light, "hmem_state_dir")
    precious.mkdir()
    state.mkdir()
    (state / "views").symlink_to(precious)
    done = light.command("hmem", "run", check=False)
    assert done.returncode == StorageError.exit_code == 15, done.stderr
    assert "is a link to" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_owner_links_is_followed(light: World) -> None:
    """HMEM_*_DIR may lead to another disk; what they lead to is held to the same rule."""
    for setting in OURS:
        disk = light.root / f"disk-{setting}"
        disk.mkdir()
        root_of(light, setting).symlink_to(disk)
    light.say("t1", "something")
    light.night()
    assert (light.root / "disk-hmem_memory_dir" / "current" / "manifest.json").exists()
    assert doctor(light) == "ok"
    (light.root / "disk-hmem_night_dir").chmod(0o777)
    with pytest.raises(StorageError, match="is writable by users other than its owner"):
        light.night()


@pytest.mark.parametrize(("umask", "sound"), [("022", True), ("077", True), ("000", False)])
def test_incoming_may_have_been_made_by_hand(light: World, umask: str, *, sound: bool) -> None:
    """As docs/two-hosts.md has it."""
    incoming = light.memory_dir / "incoming"
    subprocess.run(["sh", "-c", f"umask {umask} && mkdir -p {incoming}"], check=True)
    receiver = Receiver(light.settings(), light.memory_dir)
    if sound:
        assert receiver.begin(1)
        assert incoming.stat().st_mode & 0o777 == 0o700
    else:
        with pytest.raises(StorageError, match="is writable by users other than its owner"):
            receiver.begin(1)


def test_a_directory_of_somebody_else_is_refused(light: World) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a directory away needs root")
    releases = light.memory_dir / "releases"
    releases.mkdir(parents=True)
    os.chown(releases, NOBODY, NOBODY)
    with pytest.raises(
        StorageError, match=rf"{releases} belongs to nobody, .* runs as root\. Run the program as that user"
    ):
        prune(light.memory_dir, 2)
    os.chown(light.memory_dir, NOBODY, NOBODY)
    prune(light.memory_dir, 2)  # root acts for whoever the whole directory belongs to
    assert trusted_owners(light.memory_dir) == {0, NOBODY}
    assert unsafe(releases, {0}) is not None


def test_a_directory_is_made_private_and_each_step_is_looked_at(tmp_path: Path) -> None:
    made = own_dir(tmp_path / "a" / "root", "b", "c")
    assert {path.stat().st_mode & 0o777 for path in (made, made.parent, made.parent.parent)} == {0o700}
    made.parent.chmod(0o777)
    with pytest.raises(StorageError, match="is writable by users other than its owner"):
        own_dir(tmp_path / "a" / "root", "b", "c")
