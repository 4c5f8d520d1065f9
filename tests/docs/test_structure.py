"""The shape of the program."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from nightly.pipeline import step_names
from tests.conftest import REPOSITORY

PACKAGES = ("dispatcher", "nightly", "shared")


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
        "shared/config/settings_file.py",
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
