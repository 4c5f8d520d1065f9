"""What `hmem upgrade` finds on a host: how the program was installed, its services, the room on its disks; and the copy of a PostgreSQL."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from dispatcher.installation.upgrade import postgresql
from dispatcher.installation.upgrade.host import refuse_without_room
from dispatcher.installation.upgrade.installation import Installation, find_installation
from dispatcher.installation.upgrade.journal import FORMAT, NAME, UpgradeJournal, journals, packages_dir, read_journal
from dispatcher.installation.upgrade.services import HostServices
from dispatcher.installation.upgrade.steps import Upgrade
from dispatcher.installation.upgrade.versions import precedence, wheel_version
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.kept import AFTER
from shared.config.installation import IMAGE_MARKER
from shared.errors import FormatNewer, StorageError, UpgradeFailed
from tests.support.stores import PostgreSQL, _programs
from tests.support.world import REPOSITORY, World


def environment(folder: Path, *marks: str) -> Path:
    folder.mkdir()
    for name in ("pyvenv.cfg", *marks):
        (folder / name).touch()
    return folder


def test_how_it_was_installed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    code = tmp_path / "site-packages"
    found = find_installation(REPOSITORY, environment(tmp_path / "venv"))
    assert found.kind == "checkout"
    assert found.forward(None)[0][-2:] == ["pull", "--ff-only"]
    assert found.forward("https://example.org/us.git#next")[0][-3:] == ["fetch", "https://example.org/us.git", "next"]
    assert find_installation(code, tmp_path / "venv").kind == "venv"
    assert find_installation(code, environment(tmp_path / "px", "pipx_metadata.json")).kind == "pipx"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else real(name))
    uv = find_installation(code, environment(tmp_path / "uv", "uv-receipt.toml"))
    assert (uv.kind, uv.installer) == ("uv tool", "uv")
    assert uv.forward("git+https://example.org/us.git")[0][:3] == ["uv", "pip", "install"]
    assert uv.forward("git+https://example.org/us.git")[0][-1].endswith(" @ git+https://example.org/us.git")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UpgradeFailed, match="has no pip, and uv is not on PATH"):
        uv.refuse_target("git+https://example.org/us.git")
    with pytest.raises(UpgradeFailed, match=r"neither a checkout.*Install it anew"):
        find_installation(code, tmp_path)


def test_in_an_image_nothing_is_installed(tmp_path: Path) -> None:
    """The image's environment looks like one that pip could upgrade."""
    prefix = environment(tmp_path / "venv", IMAGE_MARKER)
    with pytest.raises(UpgradeFailed, match="Build the newer image"):
        find_installation(tmp_path / "site-packages", prefix)


def test_a_checkout_takes_no_file() -> None:
    with pytest.raises(UpgradeFailed, match="takes a git address and no file"):
        Installation("checkout", REPOSITORY, REPOSITORY, "0.1.0").refuse_target("hcli_memory-0.2.0-py3-none-any.whl")


def test_versions_are_compared_as_python_does() -> None:
    order = ["", "0.1.0", "0.2.0.dev2", "0.2.0a1", "0.2.0b2", "0.2.0rc1.dev3", "0.2.0rc1", "0.2.0rc10", "0.2.0", "0.2.0.post1.dev1", "0.2.0.post1",
             "0.9.12", "0.10.0"]  # fmt: skip
    assert all(precedence(one) < precedence(following) for one, following in pairwise(order))
    assert precedence("0.2") == precedence("0.2.0") == precedence("0.2.0+local.3")


def test_a_final_version_comes_after_its_candidate(tmp_path: Path) -> None:
    wheel = tmp_path / "hcli_memory-0.2.0-py3-none-any.whl"
    wheel.touch()
    Installation("venv", tmp_path, tmp_path, "0.2.0rc1").refuse_target(str(wheel))
    with pytest.raises(UpgradeFailed, match="is installed already"):
        Installation("venv", tmp_path, tmp_path, "0.2.0").refuse_target(str(wheel))
    with pytest.raises(UpgradeFailed, match="is older than"):
        Installation("venv", tmp_path, tmp_path, "0.3.0a1").refuse_target(str(wheel))


def test_the_version_is_in_the_name_of_a_wheel() -> None:
    assert wheel_version(Path("hcli_memory-0.2.0-py3-none-any.whl")) == "0.2.0"
    assert wheel_version(Path("hcli_memory.whl")) is None


class Disk(NamedTuple):
    total: int
    free: int


def test_a_disk_with_too_little_room_is_named(light: World) -> None:
    installation = Installation("venv", light.root, light.root, "0.1.0")
    refuse_without_room(light.settings(), installation, lambda _: Disk(1 << 40, 1 << 39))
    with pytest.raises(
        StorageError, match=r"has 1 MiB free, and an upgrade needs 512 MiB there, so nothing was changed"
    ):
        refuse_without_room(light.settings(), installation, lambda _: Disk(1 << 40, 1 << 20))


MANAGER = """#!/bin/sh
case "$*" in
  {known}) echo "{answer}" ;;
  "restart hmem-telegram") echo "$0 $*" >> {log} ;;
  *) exit 3 ;;
esac
"""


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [("systemctl", '"is-active hmem-telegram.service"', "active"), ("supervisorctl", '"status hmem-telegram"', "hmem-telegram   RUNNING   pid 7")],
)  # fmt: skip
def test_services_are_found_and_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, known: str, answer: str
) -> None:
    for program in ("systemctl", "supervisorctl"):
        (tmp_path / program).write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / name).write_text(MANAGER.format(known=known, answer=answer, log=tmp_path / "log"))
    for program in ("systemctl", "supervisorctl"):
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert HostServices().running() == ["hmem-telegram"]
    HostServices().restart(["hmem-dispatcher", "hmem-telegram"])
    assert (tmp_path / "log").read_text() == f"{tmp_path / name} restart hmem-telegram\n"


def test_a_host_without_a_manager_has_no_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert HostServices().running() == []


def test_a_journal_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "upgrades" / "20260101T000000"
    folder.mkdir(parents=True)
    made = UpgradeJournal(folder, folder, "0.1.0", None)
    made.write()
    made.write_packages()
    assert read_journal(folder, tmp_path) == made
    content = (folder / NAME).read_bytes().replace(b'"format": %d' % FORMAT, b'"format": 99')
    (folder / NAME).write_bytes(content)
    with pytest.raises(FormatNewer, match="written by a newer hcli-memory"):
        read_journal(folder, tmp_path)
    assert (folder / NAME).read_bytes() == content
    (folder / NAME).write_bytes(b"{")
    with pytest.raises(StorageError, match="it is unknown how far that upgrade came"):
        read_journal(folder, tmp_path)
    assert journals(folder, tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_root_installs_does_not_lie_where_the_dispatcher_writes(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "upgrades" / "20260101T000000"
    folder.mkdir(parents=True)
    os.chown(tmp_path / "state", 65534, 65534)
    packages = packages_dir(folder, tmp_path / "venv")
    assert packages == tmp_path / "venv" / "hmem-upgrades" / "20260101T000000"
    packages.mkdir(parents=True)
    made = UpgradeJournal(folder, packages, "0.1.0", "/wheels/ours.whl", wheel="kept.whl")
    made.write()
    (folder / "packages.json").write_bytes(b'{"target": "/tmp/evil.whl", "commit": null, "wheel": "evil.whl"}')
    with pytest.raises(StorageError, match=r"it is unknown what .* was to install"):
        read_journal(folder, tmp_path / "venv")
    made.write_packages()
    found = read_journal(folder, tmp_path / "venv")
    assert found is not None
    assert (found.target, found.wheel_path) == ("/wheels/ours.whl", packages / "kept.whl")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("back", ["true", "false"])
def test_a_made_up_upgrade_leads_root_to_no_package(light: World, back: str) -> None:
    folder = light.root / "state" / "upgrades" / "20260101T000000"
    folder.mkdir(parents=True)
    for path in (light.root / "state", folder.parent, folder):
        os.chown(path, 65534, 65534)
    (folder / NAME).write_text(
        f'{{"format": 1, "from_version": "0.0.1", "step": "reinstall", "back": {back}, "outcome": "done", "wheel": "{light.root}/evil.whl"}}'
    )
    (light.root / "evil.whl").touch()
    found = read_journal(folder, light.root / "venv")
    assert found is not None
    installation = Installation("venv", light.root / "venv", light.root / "venv", "0.1.0")
    with pytest.raises(UpgradeFailed, match="is not kept any more"):
        Upgrade(light.settings(), installation, HostServices(), found, print).go_back()


def test_a_day_store_on_postgresql_is_dumped_and_can_be_put_back(
    tmp_path: Path, server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.database()
    database = Database(url, tmp_path)
    with database.begin() as connection:
        connection.exec_driver_sql("INSERT INTO chats (chat_id, epoch) VALUES ('9912', 'e')")
    database.close()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "pg_dump is not installed, so there is no copy" in postgresql.keep(url, tmp_path)
    monkeypatch.setenv("PATH", f"{_programs()}:/usr/bin:/bin")
    assert "is copied to" in postgresql.keep(url, tmp_path)
    dump = tmp_path / postgresql.DUMP
    assert dump.stat().st_mode & 0o777 == 0o600
    assert "pg_restore --clean" in postgresql.how_back(tmp_path)
    with psycopg.connect(url, autocommit=True) as direct:
        direct.execute("DELETE FROM chats")
    subprocess.run([f"{_programs()}/pg_restore", "--clean", "--if-exists", f"--dbname={url}", str(dump)], check=True)
    with psycopg.connect(url) as direct:
        assert direct.execute("SELECT chat_id FROM chats").fetchall() == [("9912",)]
    with pytest.raises(UpgradeFailed, match="pg_dump could not copy the day store"):
        postgresql.keep(url.replace("/test_", "/gone_"), tmp_path)


def test_only_imports_that_worked_are_reported_as_done(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hmem = light.root / "venv" / "bin" / "hmem"
    hmem.parent.mkdir(parents=True)
    hmem.write_text('#!/bin/sh\n[ "$4" = 1 ] || { echo "refused" >&2; exit 24; }\n')
    hmem.chmod(0o755)
    (light.root / AFTER).touch()
    files = {"1": light.root / "since-1.jsonl", "2": light.root / "since-2.jsonl"}
    monkeypatch.setattr("dispatcher.installation.upgrade.steps.write_memories_since", lambda *_: files)
    said, made = list[str](), UpgradeJournal(light.root, light.root, "0.1.0", None)
    doing = Upgrade(
        light.settings(),
        Installation("venv", light.root, light.root / "venv", "0.1.0"),
        HostServices(),
        made,
        said.append,
    )
    doing._import_since()
    assert said == [
        f"To do: hmem memory import -- 2 {files['2']} (it failed: refused)",
        "Chats whose memories since the upgrade are imported: 1 of 2.",
    ]
