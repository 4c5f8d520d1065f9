"""The page as a service: what `hmem init` asks, the units that systemd takes, and what the doctor says of it."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest

from dispatcher.features.web import service
from dispatcher.features.web.requests.password import is_right
from dispatcher.features.web.serve import prepare
from dispatcher.features.web.service import ask_for_service, page_service
from dispatcher.features.web.tests.conftest import serving
from dispatcher.health.doctor import examine
from dispatcher.health.findings import Finding
from dispatcher.installation.layout import Layout, of_host
from dispatcher.installation.services import systemd
from dispatcher.installation.services.by_hand import ByHand, ServiceManager, services_of
from dispatcher.installation.settings_files import given_settings, write_settings
from shared.config.settings import Settings, settings_from
from shared.config.sources import WRITTEN_BY
from shared.errors import InstallationIncomplete, InvalidInput, SettingsError
from tests.support.machine import free_port
from tests.support.processes.installing import ScriptedTerminal, installation_in, layout_in, script
from tests.support.processes.sandbox import HOME, allowed_calls, settings_of
from tests.support.world import REPOSITORY, World

PASSWORD = "correct horse battery"
UNIT = REPOSITORY / "dispatcher/features/web/units/hmem-web.service"
#: As measured with systemd 252; ten times the figure. Root at the start, and the right to become hmem-night, are 0.8 of it.
EXPOSURE = 22


def wanted(**more: str) -> Settings:
    return settings_from({"web_service": "127.0.0.1:8765", **more})


def test_init_offers_it_and_sets_up_nothing_unless_asked(tmp_path: Path) -> None:
    for answers, unattended in ((["", ""], False), (["no"], False), ([], True)):
        installation = installation_in(tmp_path, ScriptedTerminal(*answers, unattended=unattended))
        ask_for_service(installation)
        assert installation.values == {}
        assert page_service(installation.settings()) is None


def test_asked_for_it_has_a_password_typed_twice_or_the_link(tmp_path: Path) -> None:
    terminal = ScriptedTerminal("yes", "short", PASSWORD, "another one", PASSWORD)
    installation = installation_in(tmp_path, terminal)
    ask_for_service(installation)
    assert "at least 12" in terminal.text
    assert installation.values["WEB_SERVICE"] == "127.0.0.1:8765"
    assert is_right(installation.values["WEB_PASSWORD"], PASSWORD)
    assert "opened by its password" in installation.notes[0]
    for given, answers in (
        ({}, ("y", "")),
        ({"WEB_SERVICE": "127.0.0.1:99"}, ("none",)),
        (dict(installation.values), ()),
    ):
        again = installation_in(tmp_path, ScriptedTerminal(*answers), given)
        ask_for_service(again)
        assert set(again.values) == {*given, "WEB_SERVICE"}, given
    with_yes = installation_in(tmp_path, ScriptedTerminal(unattended=True), {"WEB_SERVICE": "127.0.0.1:99"})
    ask_for_service(with_yes)
    assert with_yes.values == {"WEB_SERVICE": "127.0.0.1:99"}


def test_the_hash_is_with_the_owners_secrets_alone(tmp_path: Path) -> None:
    layout = of_host(tmp_path)
    layout.secrets.mkdir(parents=True)
    values = {"WEB_PASSWORD": "$argon2id$x", "WEB_SERVICE": "127.0.0.1:8765"}
    write_settings(layout, values, own_redis=True)
    holding = {path.name for path in layout.config.rglob("*.toml") if "WEB_PASSWORD" in path.read_text()}
    assert holding == {"owner.toml"}
    assert (layout.secrets / "owner.toml").stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(layout.settings_file.read_text()) == {"WEB_SERVICE": "127.0.0.1:8765"}
    assert given_settings(layout) == values


@pytest.mark.parametrize("kind", ["three-users", "own-user"])
def test_systemd_takes_its_unit_and_init_removes_what_is_no_longer_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    layout: Layout = of_host(tmp_path) if kind == "three-users" else layout_in(tmp_path)
    log, units = tmp_path / "calls", tmp_path / (".config/systemd/user" if kind == "own-user" else "units")
    folder = script(tmp_path / "bin", "systemctl", [f'echo "$@" >>{log}']).parent
    script(folder, "loginctl", ["exit 0"])
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(systemd, "SYSTEM_UNITS", units)

    def manager(settings: Settings) -> ServiceManager:
        return services_of(layout, settings)

    assert manager(wanted()).install()
    assert not manager(wanted()).install()
    text = (units / "hmem-web.service").read_text()
    assert (f"{HOME}/.venv" in text, " web\n" in text, "KillMode=process" in text) == (False, True, True)
    analyze = shutil.which("systemd-analyze")
    assert analyze, "systemd-analyze is not installed. Run scripts/setup --dev."
    words = ["verify", *(["--user"] if kind == "own-user" else []), *map(str, units.iterdir())]
    done = subprocess.run([analyze, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    log.write_text("")
    (units / "hmem-web.service.d").mkdir()  # of systemctl edit
    assert manager(settings_from({})).install()
    assert not (units / "hmem-web.service").exists()
    assert "disable --now hmem-web.service" in log.read_text()
    assert "hmem-dispatcher" not in log.read_text()
    manager(wanted()).install()
    manager(settings_from({})).remove()
    assert [one.name for one in units.iterdir()] == ["hmem-web.service.d"], "undo takes it, too"


def test_a_password_is_changed_with_its_sessions_or_it_is_said_which_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hmem.toml"
    file.write_text(f"{WRITTEN_BY}\n")
    file.chmod(0o600)
    monkeypatch.setenv("HMEM_CONFIG", str(file))
    monkeypatch.setattr("sys.stdin", Mock())
    monkeypatch.setattr("typer.prompt", lambda *_, **__: PASSWORD)
    monkeypatch.setattr(service, "layout_here", Mock())
    monkeypatch.setattr(service, "services_of", Mock(side_effect=OSError("no manager")))
    with pytest.raises(OSError, match="no manager"):
        service.set_password()
    assert file.read_text() == f"{WRITTEN_BY}\n"
    manager = Mock(programs=[page_service(wanted())], restart=Mock(side_effect=InstallationIncomplete("It failed.")))
    monkeypatch.setattr(service, "services_of", lambda *_: manager)
    with pytest.raises(InstallationIncomplete, match=r"goes on with the old one\. It failed\."):
        service.set_password()
    written = file.read_text()
    assert "$argon2id$" in written
    monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(InvalidInput, match="is a file of"):
        service.set_password()
    assert file.read_text() == written


def test_a_taken_port_is_tried_again_by_systemd(light: World) -> None:
    with serving(light) as site, pytest.raises(InvalidInput, match="cannot listen") as refused:
        prepare(light.settings(), site.base.removeprefix("http://"))
    for unit in (UNIT, REPOSITORY / "dispatcher/installation/units/own-user.service"):
        ends = next(line for line in unit.read_text().splitlines() if line.startswith("RestartPreventExitStatus="))
        assert str(refused.value.exit_code) not in ends.partition("=")[2].split()


def test_where_no_systemd_runs_it_is_started_by_its_owner(tmp_path: Path) -> None:
    page = page_service(wanted())
    assert page
    by_hand = ByHand(layout_in(tmp_path), [page], wanted())
    assert by_hand.unchecked == ["web"]
    assert by_hand.commands(["web"])[0].endswith("hmem web")


def test_the_unit_is_exposed_no_more_than_measured_and_may_only_become_others() -> None:
    found = settings_of(UNIT)
    assert found["CapabilityBoundingSet"] == ["CAP_SETGID CAP_SETUID"]
    assert {"MemoryHigh", "MemoryMax", "TasksMax"} <= set(found)
    assert not {"mount", "ptrace", "reboot", "init_module", "swapon"} & allowed_calls(found)
    assert {"setresuid", "setgroups", "capset", "execve"} <= allowed_calls(found)
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout.strip().splitlines()[-1]


def found_by_doctor(world: World, **settings: str) -> Finding:
    return next(one for one in examine(world.settings(**settings), lambda check: check.name == "page"))


def test_the_doctor_says_whether_it_answers(light: World) -> None:
    assert "No service" in found_by_doctor(light).sentence
    port = free_port()
    address = f"127.0.0.1:{port}"
    found = found_by_doctor(light, web_service=address)
    assert (found.state, "does not answer there: Connection refused" in found.sentence) == ("warning", True)
    with HTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler) as strange:
        Thread(target=strange.serve_forever, daemon=True).start()
        assert "another program has its port" in found_by_doctor(light, web_service=address).sentence
        strange.shutdown()
    with serving(light, port=port):
        assert found_by_doctor(light, web_service=address).sentence == f"The page answers at {address}."


def test_an_address_that_is_none_is_refused() -> None:
    for wrong in ("8765x", "host:0", "http://127.0.0.1:8765"):
        with pytest.raises(SettingsError, match=r"WEB_SERVICE: .*is not an address to listen on"):
            wanted(web_service=wrong)
