"""Compose file and images, and what they have in common with the units. No Docker engine is needed for these tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.config.settings import Settings, load_settings, setting_names
from tests.support.processes.sandbox import HOME, SYSTEMD, settings_of
from tests.support.world import REPOSITORY, World

DEPLOY = REPOSITORY / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_stopping_leaves_time_for_the_running_answers() -> None:
    unit = settings_of(SYSTEMD / "hmem-dispatcher.service")
    longest = Settings.model_fields["stop_timeout"].default
    assert float(unit["TimeoutStopSec"][0]) > longest + 10
    assert float(SERVICES["dispatcher"]["stop_grace_period"].rstrip("s")) > longest + 10
    assert "STOP_TIMEOUT" not in SERVICES["dispatcher"]["environment"]


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
