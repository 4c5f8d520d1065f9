"""What is shipped to run it: units, example settings, compose file and images. No systemd and no Docker engine is needed for these tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from shared.config.settings import Settings, load_settings, setting_names
from tests.servers.messages_api import MessagesApi
from tests.support.machine import wait_for
from tests.support.processes.sandbox import allowed_calls, settings_of
from tests.support.world import BINARIES, REPOSITORY, World

DEPLOY, SYSTEMD = REPOSITORY / "deploy", REPOSITORY / "systemd"
UNITS = sorted(path.name for pattern in ("*.service", "*.timer") for path in SYSTEMD.glob(pattern))
HOME = "/opt/hcli-memory"
#: As measured with systemd 252; ten times the figure, as --threshold wants it.
EXPOSURE = 14
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


# ── systemd ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.fail("systemd-analyze is not installed. Run scripts/setup --dev (or: apt-get install systemd).")
    return found


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_each_unit(analyze: str, tmp_path: Path, name: str) -> None:
    for unit in UNITS:  # a timer is verified with its service; commands are looked for where this checkout stands
        text = (SYSTEMD / unit).read_text(encoding="utf-8").replace(f"{HOME}/.venv/bin", str(BINARIES))
        (tmp_path / unit).write_text(text.replace(HOME, str(REPOSITORY)), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(tmp_path / name)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_finds_a_mistake(analyze: str, tmp_path: Path) -> None:
    text = (SYSTEMD / "hmem-night.service").read_text(encoding="utf-8").replace("ProtectClock", "ProtectClok")
    (tmp_path / "hmem-night.service").write_text(text.replace(HOME, str(REPOSITORY)), encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", str(tmp_path / "hmem-night.service")], capture_output=True, text=True, check=False
    )
    assert "ProtectClok" in done.stderr


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_a_service_is_exposed_no_more_than_measured(analyze: str, name: str) -> None:
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", str(SYSTEMD / name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.strip().splitlines()[-1]


def test_the_install_notes_name_every_open_line(analyze: str) -> None:
    notes = (SYSTEMD / "README.md").read_text(encoding="utf-8").replace("\\|", "|")
    assert f"reports {EXPOSURE / 10:g} for each service" in notes
    for name in UNITS:
        assert name in notes or (name.startswith("hmem-") and "hmem-*" in notes)
        if name.endswith(".service"):
            shown = subprocess.run(
                [analyze, "security", "--offline=true", "--no-pager", str(SYSTEMD / name)],
                capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            for line in re.findall(r"^✗ (\S+)", shown, re.MULTILINE):
                head, _, part = line.partition("=")
                assert f"`{head}=" in notes, line
                assert not part.startswith("~") or f"`{part}`" in notes or f"{head}={part}`" in notes, line


def test_stopping_leaves_time_for_the_running_answers() -> None:
    unit = settings_of(SYSTEMD / "hmem-dispatcher.service")
    longest = Settings.model_fields["stop_timeout"].default
    assert float(unit["TimeoutStopSec"][0]) > longest + 10
    assert float(SERVICES["dispatcher"]["stop_grace_period"].rstrip("s")) > longest + 10
    assert "STOP_TIMEOUT" not in SERVICES["dispatcher"]["environment"]


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
        assert unit["StandardInput"] == [f"file:/etc/hmem/secrets/{part}.toml"], (
            "a descriptor: its user cannot open the file"
        )
        assert "HMEM_CREDENTIALS=fd:0" in unit["Environment"]
        assert "EnvironmentFile" not in unit, "an environment can be read in /proc, and is inherited"
        assert "-/etc/hmem/secrets" in unit["InaccessiblePaths"][0].split()
        assert re.search(rf"useradd .*\b{users[name]}\b", notes), "the notes create it"
        assert {"MemoryHigh", "MemoryMax", "TasksMax"} <= set(unit)
    assert "install -d -m 2750 -o hmem-night -g hmem /data/memory" in notes


def test_the_commands_around_claude_may_build_its_fence(analyze: str) -> None:
    fence = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}
    assert fence <= allowed_calls(settings_of(SYSTEMD / "hmem-dispatcher.service"))
    probe = "import sys; sys.path.insert(0, '.'); from dispatcher.claude import confine; confine.confine([], [], []); print(confine.version() > 0)"
    command = [sys.executable, "-c", probe]
    assert confined("hmem-dispatcher.service", command, {"PATH": "/usr/bin:/bin"}) == "True\n"


@pytest.mark.parametrize("name", ["hmem-dispatcher.service", "hmem-night.service"])
def test_the_kernel_refuses_what_the_unit_does_not_list(analyze: str, name: str) -> None:
    calls = allowed_calls(settings_of(SYSTEMD / name))
    assert {"read", "execve", "clone", "sched_setaffinity", "futex"} <= calls
    assert not {"mount", "ptrace", "reboot", "chroot", "bpf", "init_module", "setuid", "chown", "clock_settime"} & calls
    probe = "import os\nfor call in (os.chroot, lambda path: os.chown(path, 1, 1)):\n  try: call('/')\n  except PermissionError: print('refused')"
    assert confined(name, [sys.executable, "-c", probe], {"PATH": "/usr/bin:/bin"}) == "refused\nrefused\n"


def confined(unit: str, command: list[str], variables: dict[str, str]) -> str:
    """What the command prints under the unit's kernel filters."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.processes.sandbox", str(SYSTEMD / unit), *command],
        env=variables, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pthread_setaffinity_np" not in done.stderr, "onnxruntime complains"
    return done.stdout


def test_day_and_night_work_under_their_filters(analyze: str, world: World) -> None:
    """With vectors: onnxruntime, rsync, and the real CLI with its JIT."""
    with MessagesApi() as api:
        world.environment = {
            "CLAUDE_BIN": str(BINARIES / "claude"), "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "LOG_JSON": "true",
        }  # fmt: skip
        world.say("t1", "The boiler code is 4711.")
        assert "released" in confined("hmem-night.service", [str(BINARIES / "hmem-night"), "run"], world.variables())
        day = [
            sys.executable,
            "-m",
            "tests.support.processes.sandbox",
            str(SYSTEMD / "hmem-dispatcher.service"),
            str(BINARIES / "hmem"),
            "run",
        ]
        log = world.root / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(day, env=world.variables(), cwd=REPOSITORY, stdout=stream, stderr=stream)
        try:
            wait_for(lambda: '"vectors":"yes"' in log.read_text().replace(": ", ":"), "the dispatcher and its vectors")
            assert "All right." in world.command("hmem", "ask", "9912", "what is the code of the boiler?").stdout
        finally:
            process.terminate()
            assert process.wait(600) == 0
        assert "4711" in str(api.requests[-1]["system"])
        assert "pthread_setaffinity_np" not in log.read_text()
        assert '"degraded":null' in log.read_text().replace(": ", ":")


# ── the example settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def example_lines() -> dict[str, tuple[str, bool]]:
    """Name -> (the line without its mark, whether it holds the default)."""
    found = {}
    for line in (DEPLOY / "hmem.toml").read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"#(: )?(([A-Z_]+) = .+)", line):
            found[match[3]] = (match[2], match[1] is None)
        else:
            assert not line or line.startswith("# "), line
    return found


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_example_settings_load_as_they_are(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("HMEM_CONFIG", str(DEPLOY / "hmem.toml"))
    assert load_settings() == Settings.model_construct(**{n: f.default for n, f in Settings.model_fields.items()})


def test_the_example_settings_hold_every_setting_with_its_default(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = example_lines()
    assert set(lines) == set(setting_names()) - {"HMEM_CRASH_AT"}
    path = tmp_path / "hmem.toml"
    bare.setenv("HMEM_CONFIG", str(path))
    for name, (line, is_default) in lines.items():
        path.write_text(line, encoding="utf-8")
        value, default = getattr(load_settings(), name.lower()), Settings.model_fields[name.lower()].default
        assert (value == default) == is_default, name
        assert is_default == (default is not None), name
    path.write_text("\n".join(line for line, _ in lines.values()), encoding="utf-8")
    load_settings()
    assert len(tomllib.loads(path.read_text(encoding="utf-8"))) == len(lines)


# ── compose and images ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def dockerfile(half: str) -> list[tuple[str, str]]:
    """(instruction, the rest) of each logical line."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / f"Dockerfile.{half}").read_text(encoding="utf-8"), flags=re.MULTILINE)
    joined = text.replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def of(half: str, instruction: str) -> list[str]:
    return [rest for name, rest in dockerfile(half) if name == instruction]


def variables_of(half: str) -> dict[str, str]:
    return dict(word.split("=", 1) for rest in of(half, "ENV") for word in shlex.split(rest))


HALVES = {"dispatcher": "day", "night": "night"}


def test_compose_has_the_services_and_they_their_images() -> None:
    assert set(SERVICES) == {"redis", "telegram", "owner", *HALVES}
    for name, half in HALVES.items():
        build = SERVICES[name]["build"]
        assert (DEPLOY / build["context"]).resolve() == REPOSITORY
        assert (REPOSITORY / build["dockerfile"]).name == f"Dockerfile.{half}"
        assert (REPOSITORY / build["dockerfile"]).is_file()
        assert SERVICES[name]["read_only"] is True
        assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert SERVICES["night"]["profiles"] == ["night"]
    assert "profiles" not in SERVICES["dispatcher"]


def test_compose_sets_only_settings_that_there_are(bare: pytest.MonkeyPatch) -> None:
    for name in HALVES:
        environment = dict(SERVICES[name]["environment"])
        assert environment.pop("HMEM_CREDENTIALS") == "/run/secrets/hmem.toml"
        assert set(environment) <= set(setting_names())
        for variable, value in environment.items():
            bare.setenv(variable, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
        load_settings()
        for folder in (value for variable, value in environment.items() if variable.endswith("_DIR")):
            assert folder in targets(name), f"{folder} would be lost with the container"


def test_the_bot_keeps_nothing_outside_of_redis() -> None:
    bot, unit = SERVICES["telegram"], settings_of(SYSTEMD / "hmem-telegram.service")
    assert bot["command"] == ["hmem", "telegram"]
    assert unit["ExecStart"] == [f"{HOME}/.venv/bin/hmem telegram"]
    assert "volumes" not in bot
    assert "ReadWritePaths" not in unit
    assert unit["RestartPreventExitStatus"] == ["2 10"]


def targets(name: str) -> dict[str, tuple[str, bool]]:
    """Where a service mounts what: target -> (source, read only)."""
    found = {}
    for volume in SERVICES[name]["volumes"]:
        if isinstance(volume, str):
            source, target, *mode = volume.split(":")
            volume = {"source": source, "target": target, "read_only": mode == ["ro"]}
        found[volume["target"]] = (volume["source"], bool(volume.get("read_only")))
    return found


def test_only_the_night_can_write_memory_and_state_stands_beside_it() -> None:
    day, night = targets("dispatcher"), targets("night")
    assert day["/data/memory"] == ("${HMEM_MEMORY:-/data/memory}", True)
    assert night["/data/memory"] == ("${HMEM_MEMORY:-/data/memory}", False)
    assert set(day) == {"/data/memory", "/var/lib/hmem", "/home/hmem"}
    assert set(night) == {"/data/memory", "/var/lib/hmem-night"}
    named = {
        source
        for name in SERVICES
        if "volumes" in SERVICES[name]
        for source, _ in targets(name).values()
        if source[0] not in "./$"
    }
    assert named == set(COMPOSE["volumes"])


@pytest.mark.parametrize(("name", "half"), HALVES.items())
def test_an_image_has_the_places_and_the_user_that_compose_relies_on(name: str, half: str) -> None:
    made = next(rest for rest in of(half, "RUN") if "useradd" in rest)
    for target in targets(name):
        assert target in made, f"{target} would belong to root"
    assert variables_of(half)["HOME"] in targets(name)
    assert of(half, "USER") == [{"day": "hmem", "night": "hmem-night"}[half]]
    uids = arguments_of("day") | arguments_of("night")
    assert arguments_of("day")["HMEM_UID"] == arguments_of("night")["HMEM_UID"], "the group that reads memory"
    assert len({uids["HMEM_UID"], uids["HMEM_NIGHT_UID"], SERVICES["telegram"]["user"].split(":")[0]}) == 3
    for uid in (uids["HMEM_UID"], uids["HMEM_NIGHT_UID"]):
        assert uid in (DEPLOY / "README.md").read_text(encoding="utf-8")
    assert variables_of(half)["PATH"].split(":")[0] == "/opt/venv/bin"
    assert of(half, "FROM")[-1] == "${PYTHON_IMAGE}"
    assert arguments_of(half)["PYTHON_IMAGE"] == "python:3.11-slim-bookworm"


def arguments_of(half: str) -> dict[str, str]:
    return dict(rest.split("=", 1) for rest in of(half, "ARG"))


def test_each_container_gets_its_own_secrets_in_a_file_and_has_limits() -> None:
    for name, service in SERVICES.items():
        assert "env_file" not in service
        assert {"mem_limit", "pids_limit"} <= set(service)
        if name != "redis":
            (secret,) = service["secrets"]
            assert secret == {"source": {"telegram": "bot"}.get(name, name), "target": "hmem.toml"}
            assert COMPOSE["secrets"][secret["source"]] == {"file": f"./secrets/{secret['source']}.toml"}
    for name in (
        "dispatcher",
        "owner",
    ):  # read as root, then the user whose the state directory is (shared/system/privileges.py)
        assert SERVICES[name]["user"] == "0:0"
        assert SERVICES[name]["cap_add"] == ["SETUID", "SETGID", "DAC_READ_SEARCH"]
    assert not [name for name in ("telegram", "night") if "cap_add" in SERVICES[name]]


@pytest.fixture
def pinning(tmp_path: Path) -> Path:
    """A copy of what pin-images reads and writes, and a `docker` that answers with a digest for each image."""
    for name in ("pin-images", "compose.yaml"):
        shutil.copy(DEPLOY / name, tmp_path / name)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        '#!/bin/sh\nimage=$6\n[ "$*" = "buildx imagetools inspect --format {{.Manifest.Digest}} $image" ] || exit 9\n'
        'case $image in "$BROKEN") echo "no such tag" >&2; exit 1;; "$ODD") echo latest;;\n'
        '*) echo "sha256:$(printf %s "$image" | sha256sum | cut -c1-64)";; esac\n'
    )
    docker.chmod(0o755)
    return tmp_path


def pin(place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "BROKEN": "-", "ODD": "-"} | more
    return subprocess.run([place / "pin-images"], env=variables, capture_output=True, text=True, check=False)


def test_images_are_pinned_by_what_docker_says_they_are(pinning: Path) -> None:
    (pinning / ".env").write_text("HMEM_MEMORY=/srv/memory\nREDIS_IMAGE=redis:6\n")
    for _ in range(2):
        assert pin(pinning).returncode == 0
        pinned = dict(line.split("=", 1) for line in (pinning / ".env").read_text().splitlines())
        assert set(pinned) == {"REDIS_IMAGE", "PYTHON_IMAGE", "NODE_IMAGE", "HMEM_MEMORY"}
        assert pinned["HMEM_MEMORY"] == "/srv/memory"
        for name, tag in (("REDIS_IMAGE", "redis:7"), ("PYTHON_IMAGE", "python:3.11-slim-bookworm")):
            assert re.fullmatch(rf"{re.escape(tag)}@sha256:[0-9a-f]{{64}}", pinned[name])
    assert ".env" in (DEPLOY / ".gitignore").read_text().split()
    compose = (DEPLOY / "compose.yaml").read_text()
    for name in ("REDIS_IMAGE", "PYTHON_IMAGE", "NODE_IMAGE"):
        assert f"${{{name}:-" in compose


@pytest.mark.parametrize("trouble", ["BROKEN", "ODD"])
def test_an_image_that_docker_cannot_name_changes_nothing(pinning: Path, trouble: str) -> None:
    (pinning / ".env").write_text("REDIS_IMAGE=redis:7@sha256:before\n")
    done = pin(pinning, **{trouble: "python:3.11-slim-bookworm"})
    assert (done.returncode, "pin-images: docker" in done.stderr) == (1, True)
    assert (pinning / ".env").read_text() == "REDIS_IMAGE=redis:7@sha256:before\n"
    assert not list(pinning.glob(".env.*"))


def test_the_images_have_the_claude_cli_that_was_tested() -> None:
    setup = (REPOSITORY / "scripts" / "setup").read_text(encoding="utf-8")
    tested = re.search(r"^claude_version=(\S+)$", setup, re.MULTILINE)
    wanted = re.search(r"@anthropic-ai/claude-code@(\S+)", " ".join(of("day", "RUN")))
    assert tested
    assert wanted
    assert tested[1] == wanted[1]
    link = next(rest for rest in of("day", "RUN") if rest.startswith("ln "))
    assert link.split()[2] == "/opt/claude/node_modules/.bin/claude"
    assert "npm install" in of("day", "RUN")[0]
    assert "--prefix /opt/claude" in of("day", "RUN")[0]


def test_redis_keeps_everything_and_is_asked_for_its_health() -> None:
    command = SERVICES["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--aclfile") + 1] in targets("redis")
    assert SERVICES["redis"]["image"] == "${REDIS_IMAGE:-redis:7}"
    assert "/data" in targets("redis")
    assert "--user health" in SERVICES["redis"]["healthcheck"]["test"][1]
    for name in HALVES:
        assert SERVICES[name]["depends_on"]["redis"]["condition"] == "service_healthy"


def context_files() -> list[Path]:
    """What .dockerignore lets through. Its patterns here: `*` for all, `!name` for exceptions, `**/pattern` for everywhere."""
    rules = [
        line
        for line in (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and line[0] != "#"
    ]
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    dropped = [rule.removeprefix("**/") for rule in rules if rule.startswith("**/")]
    assert rules == ["*", *(f"!{name}" for name in kept), *(f"**/{pattern}" for pattern in dropped)]
    files = [
        path
        for name in kept
        for path in ([REPOSITORY / name] if (REPOSITORY / name).is_file() else (REPOSITORY / name).rglob("*"))
    ]
    return [
        path.relative_to(REPOSITORY)
        for path in files
        if path.is_file() and not any(fnmatch(part, pattern) for part in path.parts for pattern in dropped)
    ]


def test_no_secret_and_no_test_goes_into_an_image() -> None:
    files = context_files()
    assert {path.parts[0] for path in files} == {
        "pyproject.toml", "requirements.lock", "README.md", "LICENSE", "scripts", "dispatcher", "nightly", "shared"
    }  # fmt: skip
    assert [path.name for path in files if path.parts[0] == "scripts"] == ["locked"]
    assert Path("shared/models/all-MiniLM-L6-v2-int8/model.onnx") in files
    assert "secrets/" in (DEPLOY / ".gitignore").read_text(encoding="utf-8").split()


# ── requirements.lock ────────────────────────────────────────────────────────────────────────────────────────────────────────────


LOCK = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))


def locked(*extras: str) -> str:
    return subprocess.run(
        [REPOSITORY / "scripts" / "locked", *extras], capture_output=True, text=True, check=True
    ).stdout


def pins(text: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)}


def test_every_package_of_the_lock_has_hashes_and_no_address() -> None:
    blocks = re.split(r"^# for: .*\n", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(LOCK)) > 150
    for block in blocks:
        assert re.fullmatch(r"[\w.-]+==[^\\\n]+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", block), block[:100]
    assert "http" not in LOCK.replace("httpx", "").replace("httpcore", "").replace("httptools", "").replace(
        "aiohttp", ""
    )


@pytest.mark.parametrize("extra", ["day", "night", "dev", *sorted(PROJECT["project"]["optional-dependencies"])])
def test_a_part_of_the_lock_holds_all_that_its_extra_needs(extra: str) -> None:
    """As far as it is installed here: what each package asks for, and theirs."""
    part, open_ones, seen = pins(locked(extra)), [*PROJECT["project"]["dependencies"]], set[str]()
    open_ones += PROJECT["project"]["optional-dependencies"][extra]
    while open_ones:
        asked = Requirement(open_ones.pop())
        name = canonicalize_name(asked.name)
        if str(asked) in seen or (
            asked.marker and not any(asked.marker.evaluate({"extra": one}) for one in ("", *asked.extras))
        ):
            continue
        seen.add(str(asked))
        if name == "hcli-memory":
            open_ones += [need for one in asked.extras for need in PROJECT["project"]["optional-dependencies"][one]]
            continue
        assert name in part, f"{extra} needs {asked}"
        assert asked.specifier.contains(part[name], prereleases=True), asked
        with suppress(PackageNotFoundError):
            open_ones += [
                need
                for need in requires(asked.name) or ()
                if (marker := Requirement(need).marker) is None
                or any(marker.evaluate({"extra": one}) for one in ("", *asked.extras))
            ]
    assert "setuptools" in part, "the project is built without fetching anything"


def test_a_part_of_the_lock_leaves_out_what_it_does_not_need() -> None:
    assert not {"pytest", "lancedb", "mypy"} & set(pins(locked("day", "night")))
    assert "aiogram" not in pins(locked("night"))
    assert "chromadb" in pins(locked("night"))
    assert "lancedb" in pins(locked("night,lancedb"))
    assert pins(locked("night,lancedb")) == pins(locked("night", "lancedb"))
    done = subprocess.run([REPOSITORY / "scripts" / "locked", "nite"], capture_output=True, text=True, check=False)
    assert (done.returncode, "has no extra nite" in done.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_pip_lines_of_the_images_make_commands_that_work(tmp_path: Path, world: World) -> None:
    """The images' own RUN lines, in a copy of their context and with another prefix; what each installed is used before the next one comes."""
    for path in context_files():
        (tmp_path / "context" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / path, tmp_path / "context" / path)
    prefix, context = tmp_path / "venv", tmp_path / "context"
    world.say("t1", "The boiler code is 4711.")

    def built(half: str) -> subprocess.CompletedProcess[str]:
        line = next(rest for rest in of(half, "RUN") if "pip install" in rest).replace("/opt/venv", str(prefix))
        line = line.replace("python -m venv", f"{sys.executable} -m venv")
        faster = os.environ | {"PIP_COMPILE": "0"}  # modules are compiled by whoever imports them
        return subprocess.run(
            ["/bin/sh", "-e", "-c", line],
            cwd=context,
            check=False,
            timeout=800,
            env=faster,
            capture_output=True,
            text=True,
        )

    def installed(half: str, *command: str) -> str:
        done = built(half)
        assert done.returncode == 0, done.stderr
        context.rename(tmp_path / "away")  # what was installed stands alone
        variables = world.variables() | {"PATH": f"{prefix}/bin:/usr/bin:/bin"}
        done = subprocess.run(
            [prefix / "bin" / command[0], *command[1:]], env=variables, capture_output=True, text=True, check=False
        )
        (tmp_path / "away").rename(context)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lock = context / "requirements.lock"
    right = lock.read_text()
    lock.write_text(re.sub(r"(alembic==.*\n)(    --hash=.*\n)+", rf"\1    --hash=sha256:{'0' * 64}\n", right))
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in built("night").stderr, "what is not what it was is not installed"
    lock.write_text(right)
    assert "released" in installed("night", "hmem-night", "run")
    found = installed("day", "hmem", "search", "9912", "code of the boiler")
    assert "4711" in found
    assert "meaning -" not in found, "without vectors"
