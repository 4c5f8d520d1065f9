"""The systemd units: verified, as exposed as measured, and day and night at work under their filters."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatcher.claude import landlock
from shared.config.settings import Settings, setting_names
from tests.servers.messages_api import MessagesApi
from tests.support.machine import wait_for
from tests.support.processes.sandbox import HOME, SYSTEMD, allowed_calls, settings_of
from tests.support.world import BINARIES, REPOSITORY, World, real_claude

UNITS = sorted(path.name for pattern in ("*.service", "*.timer") for path in SYSTEMD.glob(pattern))
#: As measured with systemd 252; ten times the figure, as --threshold wants it.
EXPOSURE = 14
SANDBOX = [sys.executable, "-m", "tests.support.processes.sandbox"]
Analyze = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def analyze() -> Analyze:
    """`systemd-analyze`, run with these words."""
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.fail("systemd-analyze is not installed. Run scripts/setup --dev (or: apt-get install systemd).")
    if os.geteuid() != 0 and not Path("/run/systemd").is_dir():
        pytest.skip("systemd-analyze makes /run/systemd, which only root may, and no systemd runs here")
    return lambda *words: subprocess.run([found, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_each_unit(analyze: Analyze, tmp_path: Path, name: str) -> None:
    for unit in UNITS:  # a timer is verified with its service; commands are looked for where this checkout stands
        text = (SYSTEMD / unit).read_text(encoding="utf-8").replace(f"{HOME}/.venv/bin", str(BINARIES))
        (tmp_path / unit).write_text(text.replace(HOME, str(REPOSITORY)), encoding="utf-8")
    done = analyze("verify", tmp_path / name)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_a_service_is_exposed_no_more_than_measured(analyze: Analyze, name: str) -> None:
    done = analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", SYSTEMD / name)
    assert done.returncode == 0, done.stdout.strip().splitlines()[-1]


def test_the_install_notes_name_every_open_line(analyze: Analyze) -> None:
    notes = (SYSTEMD / "README.md").read_text(encoding="utf-8").replace("\\|", "|")
    assert f"reports {EXPOSURE / 10:g} for each service" in notes
    for name in UNITS:
        assert name in notes or (name.startswith("hmem-") and "hmem-*" in notes)
        if name.endswith(".service"):
            shown = analyze("security", "--offline=true", "--no-pager", SYSTEMD / name).stdout
            for line in re.findall(r"^✗ (\S+)", shown, re.MULTILINE):
                head, _, part = line.partition("=")
                assert f"`{head}=" in notes, line
                assert not part.startswith("~") or f"`{part}`" in notes or f"{head}={part}`" in notes, line


def test_units_and_settings_agree_on_the_places() -> None:
    defaults = {name: str(field.default) for name, field in Settings.model_fields.items()}
    day, night = (settings_of(SYSTEMD / f"hmem-{half}.service") for half in ("dispatcher", "night"))
    for unit, name in ((day, "hmem_state_dir"), (night, "hmem_night_dir")):
        assert f"{name.upper()}={defaults[name]}" in unit["Environment"]
        assert defaults[name].removeprefix("/var/lib/") in unit["StateDirectory"][0].split()
        assert defaults[name] in unit["ReadWritePaths"][0].split()
    assert day["ReadOnlyPaths"] == [f"-{defaults['hmem_memory_dir']}"]
    # With a minus: a night host without a day host beside it has no such directory.
    assert f"-{defaults['hmem_memory_dir']}" in night["ReadWritePaths"][0].split()
    for unit in (day, night):
        for variable in unit["Environment"]:
            assert variable.split("=")[0] in {*setting_names(), "HOME", "PYTHONFAULTHANDLER", "HMEM_CREDENTIALS"}


PARTS = {"dispatcher": "dispatcher", "night": "night", "telegram": "bot"}


def test_each_unit_has_a_user_and_secrets_of_its_own_and_limits() -> None:
    units = {name: settings_of(SYSTEMD / f"hmem-{name}.service") for name in PARTS}
    users = {name: unit["User"][0] for name, unit in units.items()}
    assert users == {"dispatcher": "hmem", "night": "hmem-night", "telegram": "hmem-bot"}
    notes = (SYSTEMD / "README.md").read_text(encoding="utf-8")
    for name, part in PARTS.items():
        unit = units[name]
        secrets = f"file:/etc/hmem/secrets/{part}.toml"
        assert unit["StandardInput"] == [secrets], "a descriptor: its user cannot open the file"
        assert "HMEM_CREDENTIALS=fd:0" in unit["Environment"]
        assert "EnvironmentFile" not in unit, "an environment can be read in /proc, and is inherited"
        assert "-/etc/hmem/secrets" in unit["InaccessiblePaths"][0].split()
        assert re.search(rf"useradd .*\b{users[name]}\b", notes), "the notes create it"
        assert {"MemoryHigh", "MemoryMax", "TasksMax"} <= set(unit)
        assert unit["OOMPolicy"] == ["continue"], "a child that the kernel ended would end the service"
    assert "install -d -m 2750 -o hmem-night -g hmem /data/memory" in notes


@pytest.mark.skipif(landlock.version() < 2, reason="here is no Landlock: an old kernel, or a container forbids it")
def test_the_commands_around_claude_may_build_its_fence(analyze: Analyze) -> None:
    fence = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    assert fence <= allowed_calls(settings_of(SYSTEMD / "hmem-dispatcher.service"))
    confine = "from dispatcher.claude import landlock as made; made.confine([], [], []); print(made.version() > 0)"
    probe = f"import sys; sys.path.insert(0, '.'); {confine}"
    command = [sys.executable, "-c", probe]
    assert confined("hmem-dispatcher.service", command, {"PATH": "/usr/bin:/bin"}) == "True\n"


@pytest.mark.parametrize("name", ["hmem-dispatcher.service", "hmem-night.service"])
def test_the_kernel_refuses_what_the_unit_does_not_list(analyze: Analyze, name: str) -> None:
    calls = allowed_calls(settings_of(SYSTEMD / name))
    assert {"read", "execve", "clone", "sched_setaffinity", "futex"} <= calls
    assert not {"mount", "ptrace", "reboot", "chroot", "bpf", "init_module", "setuid", "chown", "clock_settime"} & calls
    probe = "import os\nfor call in (os.chroot, lambda path: os.chown(path, 1, 1)):\n  try: call('/')\n  except PermissionError: print('refused')"
    assert confined(name, [sys.executable, "-c", probe], {"PATH": "/usr/bin:/bin"}) == "refused\nrefused\n"


def confined(unit: str, command: list[str], variables: dict[str, str]) -> str:
    """What the command prints under the unit's kernel filters."""
    done = subprocess.run(
        [*SANDBOX, str(SYSTEMD / unit), *command],
        env=variables, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pthread_setaffinity_np" not in done.stderr, "onnxruntime complains"
    return done.stdout


def test_day_and_night_work_under_their_filters(analyze: Analyze, world: World) -> None:
    """With vectors: onnxruntime, rsync, and the real CLI with its JIT."""
    with MessagesApi() as api:
        world.environment = real_claude(api.url, LOG_JSON="true")
        world.say("t1", "The boiler code is 4711.")
        assert "released" in confined("hmem-night.service", [str(BINARIES / "hmem-night"), "run"], world.variables())
        day = [*SANDBOX, str(SYSTEMD / "hmem-dispatcher.service"), str(BINARIES / "hmem"), "run"]
        log = world.root / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(day, env=world.variables(), cwd=REPOSITORY, stdout=stream, stderr=stream)
        try:
            wait_for(lambda: '"vectors":"yes"' in log.read_text().replace(": ", ":"), "the dispatcher and its vectors")
            assert (
                "All right." in world.command("hmem", "talk", "9912", "--say", "what is the code of the boiler?").stdout
            )
        finally:
            process.terminate()
            assert process.wait(600) == 0
        assert "4711" in str(api.requests[-1]["system"])
        assert "pthread_setaffinity_np" not in log.read_text()
        assert '"degraded":null' in log.read_text().replace(": ", ":")
