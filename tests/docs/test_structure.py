"""The shape of the program, and that what the documents say is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dispatcher.cli.main import hmem
from nightly.cli.main import app as hmem_night
from nightly.pipeline import step_names
from shared.config.settings import setting_names
from shared.errors import exit_codes
from shared.wire.keys import KEYS
from tests.conftest import REPOSITORY

PACKAGES = ("dispatcher", "nightly", "shared")
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(package: str) -> list[Path]:
    return sorted((REPOSITORY / package).rglob("*.py"))


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("dispatcher", {"nightly"}), ("nightly", {"dispatcher"}), ("shared", {"dispatcher", "nightly"})],
)
def test_arrows_go_one_way(package: str, forbidden: set[str]) -> None:
    for path in modules(package):
        assert not {name.split(".")[0] for name in imports(path)} & forbidden, path


def test_no_step_imports_a_step() -> None:
    steps = {f"nightly.steps.{name}" for name in step_names()}
    for step in step_names():
        assert not imports(REPOSITORY / "nightly" / "steps" / f"{step}.py") & steps, step


def test_only_the_settings_read_the_environment() -> None:
    allowed = {
        "shared/config/sources.py",
        "shared/config/credentials.py",  # finds the file with the secrets, and hands it to children
        "shared/system/privileges.py",  # HOME, when root becomes another user
        "shared/embedding/local.py",  # turns a library's telemetry off
        "dispatcher/claude/client.py",  # passes on what the CLI may see
        "dispatcher/answering/watchdog.py",  # NOTIFY_SOCKET and WATCHDOG_USEC are systemd's protocol, not settings
    }
    for package in PACKAGES:
        for path in modules(package):
            if str(path.relative_to(REPOSITORY)) not in allowed:
                assert "os.environ" not in path.read_text(encoding="utf-8"), path
                assert "getenv" not in path.read_text(encoding="utf-8"), path


def test_clients_of_redis_are_opened_in_one_place() -> None:
    for package in PACKAGES:
        for path in modules(package):
            if path != REPOSITORY / "shared" / "wire" / "client.py":
                text = ast.unparse(_without_docstrings(ast.parse(path.read_text(encoding="utf-8"))))
                assert not re.search(r"from_url\(|\bRedis\(|ConnectionPool\(", text), path


def test_redis_keys_are_built_in_one_place() -> None:
    for package in PACKAGES:
        for path in modules(package):
            if path != REPOSITORY / "shared" / "wire" / "keys.py":
                text = ast.unparse(_without_docstrings(ast.parse(path.read_text(encoding="utf-8"))))
                assert not re.search(r"['\"]hcli:", text), path


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            body[0].value = ast.Constant("")
    return tree


def test_files_and_functions_stay_short() -> None:
    for package in PACKAGES:
        for path in modules(package):
            text = path.read_text(encoding="utf-8")
            assert text.count("\n") <= 400, path
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert (node.end_lineno or 0) - node.lineno <= 60, f"{path}: {node.name}"


def day_commands() -> dict[str, Any]:
    return {name: hmem.loaded(name) for name in hmem.commands}


def night_commands() -> dict[str, Any]:
    return dict(typer.main.get_command(hmem_night).commands)  # type: ignore[attr-defined]


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    for name, found in day_commands().items():
        assert found.name == name
        assert hmem.commands[name].help == found.help.split("\n\n")[0], name


def test_every_command_is_in_the_readme() -> None:
    for name, commands in (("hmem", day_commands()), ("hmem-night", night_commands())):
        for command, found in commands.items():
            assert f"{name} {command}" in README, f"{name} {command}"
            for option in (opt for parameter in found.params for opt in parameter.opts if opt.startswith("-")):
                assert option in ("--help", "--json") or option in README, f"{name} {command} {option}"


def test_every_setting_is_in_the_readme() -> None:
    for name in setting_names():
        assert f"`{name}`" in README, name


def test_the_readme_names_no_setting_that_is_not_there() -> None:
    table = README[README.index("## Settings") :]
    rows = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \|", table, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    assert named == {*setting_names(), "HMEM_CONFIG", "HMEM_CREDENTIALS"}


def test_every_redis_key_is_in_the_architecture() -> None:
    for key in KEYS:
        assert f"`{key.pattern}`" in ARCHITECTURE, key.pattern


def test_every_exit_code_is_in_the_architecture() -> None:
    for code, name in exit_codes().items():
        assert re.search(rf"^\| {code} \| `{name}` \|", ARCHITECTURE, re.MULTILINE), f"{code} {name}"
    for code in re.findall(r"^\| (\d+) \| `\w+` \|", ARCHITECTURE, re.MULTILINE):
        assert int(code) in exit_codes(), code


def test_every_step_is_in_the_architecture() -> None:
    assert " → ".join(step_names()) in ARCHITECTURE


def test_the_tests_that_the_documents_name_are_there() -> None:
    documents = ARCHITECTURE + (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    sources = {path: path.read_text(encoding="utf-8") for path in modules("tests")}
    there = {str(path.relative_to(REPOSITORY)) for path in sources}
    there |= {name for text in sources.values() for name in re.findall(r"def (test_\w+)", text)}
    assert set(re.findall(r"`(tests/[\w/]+\.py|test_\w+)`", documents)) <= there
