"""Compose file and images, and what they have in common with the units. No Docker engine is needed for these tests."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from dockerfile_parse import DockerfileParser  # type: ignore[import-untyped]

from shared.config.settings import Settings, load_settings, setting_names
from tests.support.processes.sandbox import SYSTEMD, settings_of
from tests.support.world import REPOSITORY, World

DEPLOY = REPOSITORY / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_stopping_leaves_time_for_the_running_answers() -> None:
    unit = settings_of(SYSTEMD / "hmem-dispatcher.service")
    longest = Settings.model_fields["task_timeout"].default
    assert float(unit["TimeoutStopSec"][0]) > longest + 10
    assert float(SERVICES["dispatcher"]["stop_grace_period"].rstrip("s")) > longest + 10
    assert SERVICES["dispatcher"]["environment"]["TASK_TIMEOUT"] == f"${{TASK_TIMEOUT:-{longest:.0f}}}"


def parser(half: str) -> Any:
    return DockerfileParser(fileobj=io.BytesIO((DEPLOY / f"Dockerfile.{half}").read_bytes()))


@cache
def dockerfile(half: str) -> list[tuple[str, str]]:
    """(instruction, the rest) of each logical line."""
    lines = parser(half).structure
    found = [(one["instruction"], one["value"]) for one in lines if one["instruction"] != "COMMENT"]
    assert {name for name, _ in found} <= {
        "ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "HEALTHCHECK", "CMD"
    }  # fmt: skip
    return found


def of(half: str, instruction: str) -> list[str]:
    return [rest for name, rest in dockerfile(half) if name == instruction]


def stages(half: str) -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = []
    for name, rest in dockerfile(half):
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append((name, rest))
    return found


def variables_of(half: str) -> dict[str, str]:
    return dict(parser(half).envs)


HALVES = {"dispatcher": "day", "night": "night"}


def test_compose_has_the_services_and_they_their_images() -> None:
    assert set(SERVICES) == {"secrets", "redis", "telegram", "owner", *HALVES}
    built = {"secrets": "day", "night": "night"}
    assert {name for name in SERVICES if "build" in SERVICES[name]} == set(built), "each image once"
    for name, half in built.items():
        build = SERVICES[name]["build"]
        assert (DEPLOY / build["context"]).resolve() == REPOSITORY
        assert (REPOSITORY / build["dockerfile"]).name == f"Dockerfile.{half}"
        assert (REPOSITORY / build["dockerfile"]).is_file()
    for name in set(SERVICES) - {"redis"}:
        assert SERVICES[name]["image"] == f"hcli-memory-{HALVES.get(name, 'day')}", "no service keeps an older version"
        assert SERVICES[name]["pull_policy"] == "never", "it is in no registry"
        assert name == "secrets" or "secrets" in SERVICES[name]["depends_on"], "so each start builds the day's image"
    assert [name for name in SERVICES if "profiles" in SERVICES[name]] == ["owner"], "the rest starts by itself"


def test_the_compose_file_satisfies_the_schema_of_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, DEPLOY / "compose.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_container_has_any_right_of_root() -> None:
    """From the start: no uid 0, no capability, nothing to gain by a setuid program, no file of the image can change."""
    users = {name: service["user"].split(":")[0] for name, service in SERVICES.items()}
    assert users == {
        "secrets": "10004", "redis": "999", "dispatcher": "10001", "owner": "10001", "telegram": "10003", "night": "10002"
    }  # fmt: skip
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
    for half in ("day", "night"):
        assert dockerfile(half)[-1][0] == "CMD"
        assert stages(half)[-1][0] == ("FROM", "${PYTHON_IMAGE}")
        run = [rest for name, rest in stages(half)[-1] if name == "RUN"]
        assert not [rest for rest in run if "pip" in rest], "no compiler, no pip's cache"


def test_every_service_that_stays_is_asked_for_its_health() -> None:
    for half in ("day", "night"):
        (check,) = of(half, "HEALTHCHECK")
        assert {"day": "hmem run --check", "night": "hmem-night status"}[half] in check
    assert "hmem telegram --check" in SERVICES["telegram"]["healthcheck"]["test"][1]
    for name in ("secrets", "owner"):
        assert SERVICES[name]["healthcheck"] == {"disable": True}, "it ends by itself"


def test_the_owner_fills_in_two_values() -> None:
    example = (DEPLOY / "env.example").read_text(encoding="utf-8")
    assert re.findall(r"^(\w+)=$", example, re.M) == ["TELEGRAM_BOT_TOKEN", "ALLOWED_CHATS"]
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text(encoding="utf-8")))
    assert set(re.findall(r"^#?(\w+)=", example, re.M)) <= used, "a value that nothing reads"
    with_token = [name for name, service in SERVICES.items() if "TELEGRAM_BOT_TOKEN" in service.get("environment", {})]
    assert with_token == ["secrets"], "secrets are files: only who writes them, and ends, has this one"
    assert SERVICES["secrets"]["network_mode"] == "none"


def test_compose_sets_only_settings_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HALVES:
        environment = dict(SERVICES[name]["environment"])
        assert environment.pop("HMEM_CREDENTIALS") == "/run/hmem/hmem.toml"
        assert set(environment) <= set(setting_names())
        for variable, value in environment.items():
            monkeypatch.setenv(variable, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
        load_settings()
        for folder in (value for variable, value in environment.items() if variable.endswith("_DIR")):
            assert folder in targets(name), f"{folder} would be lost with the container"


def targets(name: str) -> dict[str, tuple[str, bool]]:
    """Where a service mounts what: target -> (source, read only)."""
    found = {}
    for volume in SERVICES[name]["volumes"]:
        if isinstance(volume, dict):
            found[volume["target"]] = (volume["source"], volume.get("read_only", False))
            continue
        source, target, mode = re.findall(r"^(\$\{[^}]*\}|[^:]+):([^:]+)(?::(ro))?$", volume)[0]
        found[target] = (source, mode == "ro")
    return found


def default_of(source: str) -> str:
    return re.sub(r"\$\{\w+:-(.*)\}", r"\1", source)


def taken_from_images(volume: str) -> set[tuple[str, str]]:
    """(image, folder) of which a new volume takes content and owner, whichever container is made first."""
    found = set()
    for name, service in SERVICES.items():
        apart = [one["target"] for one in service["volumes"] if isinstance(one, dict) and one["volume"]["nocopy"]]
        mounted = [target for target, (source, _) in targets(name).items() if default_of(source) == volume]
        found |= {(service["image"], target) for target in mounted if target not in apart}
    return found


def test_a_new_volume_has_the_owner_that_our_images_give_it_whatever_redis_image_has() -> None:
    taken = {volume: taken_from_images(volume) for volume in COMPOSE["volumes"]}
    both = {("hcli-memory-day", "/data/memory"), ("hcli-memory-night", "/data/memory")}
    assert taken.pop("memory") == both, "which give it to the same user and group"
    for volume, images in taken.items():
        ((image, folder),) = images
        made = next(rest for rest in of(image.removeprefix("hcli-memory-"), "RUN") if "useradd" in rest)
        assert folder in made.split(), volume
    made = next(rest for rest in of("day", "RUN") if "useradd" in rest)
    assert "-m 700 -o 999 -g 999 /redis-data" in made
    assert SERVICES["redis"]["user"] == "999:999"
    assert targets("secrets")["/redis-data"] == ("redis", True)


def test_only_the_night_can_write_memory_and_state_stands_beside_it() -> None:
    day, night = targets("dispatcher"), targets("night")
    assert day["/data/memory"] == ("${HMEM_MEMORY:-memory}", True)
    assert night["/data/memory"] == ("${HMEM_MEMORY:-memory}", False)
    assert targets("owner")["/data/memory"][1]
    assert set(day) == {"/run/hmem", "/etc/hmem/hmem.toml", "/data/memory", "/var/lib/hmem", "/home/hmem"}
    assert set(night) == {"/run/hmem", "/etc/hmem/hmem.toml", "/data/memory", "/var/lib/hmem-night"}
    named = {default_of(source) for name in SERVICES for source, _ in targets(name).values()}
    assert named == {*COMPOSE["volumes"], "./hmem.toml"}


@pytest.mark.parametrize(("name", "half"), HALVES.items())
def test_an_image_has_the_places_and_the_user_that_compose_relies_on(name: str, half: str) -> None:
    made = next(rest for rest in of(half, "RUN") if "useradd" in rest)
    for target in set(targets(name)) - {"/run/hmem", "/etc/hmem/hmem.toml"}:
        assert target in made, f"{target} would belong to root"
    assert "-m 2750 -o 10002 -g hmem /data/memory" in made.replace("-o hmem-night", "-o 10002"), "on a new volume, too"
    assert variables_of(half)["HOME"] in targets(name)
    assert of(half, "USER") == [{"day": "hmem", "night": "hmem-night"}[half]]
    uids = arguments_of("day") | arguments_of("night")
    assert arguments_of("day")["HMEM_UID"] == arguments_of("night")["HMEM_UID"], "the group that reads memory"
    assert len({uids["HMEM_UID"], uids["HMEM_NIGHT_UID"], SERVICES["telegram"]["user"].split(":")[0]}) == 3
    for uid in (uids["HMEM_UID"], uids["HMEM_NIGHT_UID"]):
        assert uid in (DEPLOY / "README.md").read_text(encoding="utf-8")
    uid = {"day": uids["HMEM_UID"], "night": uids["HMEM_NIGHT_UID"]}[half]
    assert SERVICES[name]["user"] == f"{uid}:{uids['HMEM_UID']}", "releases are written with the group that reads them"
    assert variables_of(half)["PATH"].split(":")[0] == "/opt/venv/bin"
    assert of(half, "FROM")[-1] == "${PYTHON_IMAGE}"
    assert arguments_of(half)["PYTHON_IMAGE"] == "python:3.11-slim-bookworm"


def arguments_of(half: str) -> dict[str, str]:
    return dict(rest.split("=", 1) for rest in of(half, "ARG") if "=" in rest)


def test_each_container_gets_its_own_secrets_in_a_file_and_has_limits() -> None:
    maker = {source: target for target, (source, _) in targets("secrets").items()}
    places = {"redis": "/etc/redis"}
    for name, service in SERVICES.items():
        assert "env_file" not in service
        assert {"mem_limit", "pids_limit"} <= set(service)
        if name == "secrets":
            continue
        part = {"telegram": "bot"}.get(name, name)
        mounted = {source: (target, read_only) for target, (source, read_only) in targets(name).items()}
        assert mounted[f"secrets-{part}"] == (places.get(name, "/run/hmem"), True)
        assert [source for source in mounted if source.startswith("secrets")] == [f"secrets-{part}"]
        assert maker[f"secrets-{part}"] == f"/secrets/{part}"
        assert service["depends_on"]["secrets"]["condition"] == "service_completed_successfully"
    made = next(rest for rest in of("day", "RUN") if "useradd" in rest)
    for target in targets("secrets"):
        assert target in made, f"{target} would belong to root"


def test_who_makes_the_secrets_is_in_the_groups_that_read_them() -> None:
    script = (DEPLOY / "container-secrets").read_text(encoding="utf-8")
    given = dict(re.findall(r"^  give (\w+) (\d+) ", script, re.M))
    assert set(given.values()) == set(SERVICES["secrets"]["group_add"])
    for part, group in given.items():
        service = SERVICES["telegram" if part == "bot" else part]
        groups = (service["user"].split(":")[1], *service.get("group_add", []))
        assert group in groups, f"{part} could not read its file"
    copied = next(rest for rest in of("day", "COPY") if "container-secrets" in rest)
    assert SERVICES["secrets"]["entrypoint"] == [f"{copied.split()[-1]}container-secrets"]


def test_the_images_have_the_claude_cli_that_was_tested() -> None:
    setup = (REPOSITORY / "scripts" / "setup").read_text(encoding="utf-8")
    tested = re.search(r"^claude_version=(\S+)$", setup, re.MULTILINE)
    wanted = re.search(r"@anthropic-ai/claude-code@(\S+)", " ".join(of("day", "RUN")))
    assert tested and wanted and tested[1] == wanted[1]
    link = next(rest for rest in of("day", "RUN") if rest.startswith("ln "))
    assert link.split()[2] == "/opt/claude/node_modules/.bin/claude"
    assert "npm install" in of("day", "RUN")[0]
    assert "--prefix /opt/claude" in of("day", "RUN")[0]


def test_redis_keeps_everything_and_is_asked_for_its_health() -> None:
    command = SERVICES["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"
    assert str(Path(command[command.index("--aclfile") + 1]).parent) in targets("redis")
    assert SERVICES["redis"]["image"] == "${REDIS_IMAGE:-redis:7}"
    assert "/data" in targets("redis")
    assert "--user health" in SERVICES["redis"]["healthcheck"]["test"][1]
    for name in (*HALVES, "owner", "telegram"):
        assert SERVICES[name]["depends_on"]["redis"]["condition"] == "service_healthy"


def context_files() -> list[Path]:
    """What .dockerignore lets through. Its patterns here: `*` for all, `!name` for exceptions, `**/pattern` for everywhere."""
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and line[0] != "#"]
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    dropped = [rule.removeprefix("**/") for rule in rules if rule.startswith("**/")]
    assert rules == ["*", *(f"!{name}" for name in kept), *(f"**/{pattern}" for pattern in dropped)]
    places = [REPOSITORY / name for name in kept]
    files = [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]
    left_out = {path for path in files for part in path.parts if any(fnmatch(part, pattern) for pattern in dropped)}
    return [path.relative_to(REPOSITORY) for path in files if path not in left_out]


def test_no_secret_and_no_test_goes_into_an_image() -> None:
    files = context_files()
    assert {path.parts[0] for path in files} == {
        "pyproject.toml", "requirements.lock", "README.md", "LICENSE", "scripts", "deploy", "dispatcher", "nightly", "shared"
    }  # fmt: skip
    assert sorted(path.name for path in files if path.parts[0] == "deploy") == [
        "container-secrets", "new-secrets", "redis-users.acl"
    ]  # fmt: skip
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
        lines = [rest for name, rest in stages(half)[-2] if name == "RUN"]
        line = " && ".join(lines).replace("/opt/venv", str(prefix))
        line = line.replace("python -m venv", f"{sys.executable} -m venv")
        faster = os.environ | {"PIP_COMPILE": "0"}  # modules are compiled by whoever imports them
        del faster["PYTHONPATH"]  # this checkout's
        command = ["/bin/sh", "-e", "-c", line]
        return subprocess.run(
            command, cwd=context, env=faster, capture_output=True, text=True, timeout=800, check=False
        )

    def installed(half: str, *command: str) -> str:
        done = built(half)
        assert done.returncode == 0, done.stderr
        context.rename(tmp_path / "away")  # what was installed stands alone
        variables = world.variables() | {"PATH": f"{prefix}/bin:/usr/bin:/bin"}
        words = [str(prefix / "bin" / command[0]), *command[1:]]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
        (tmp_path / "away").rename(context)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lock = context / "requirements.lock"
    right = lock.read_text()
    lock.write_text(re.sub(r"(apscheduler==.*\n)(    --hash=.*\n)+", rf"\1    --hash=sha256:{'0' * 64}\n", right))
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in built("night").stderr, "what is not what it was is not installed"
    lock.write_text(right)
    assert "released" in installed("night", "hmem-night", "run")
    found = installed("day", "hmem", "search", "9912", "code of the boiler")
    assert "4711" in found
    assert "meaning -" not in found, "without vectors"
