"""The example settings: every setting with its default."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from shared.config.settings import load_settings, setting_fields, setting_names
from tests.support.world import REPOSITORY

DEPLOY = REPOSITORY / "deploy"


def example_lines() -> dict[str, tuple[str, bool]]:
    """Name -> (the line without its mark, whether it holds the default)."""
    found = {}
    for line in (DEPLOY / "hmem.toml").read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"#(: )?(([A-Z_]+) = .+)", line):
            found[match[3]] = (match[2], match[1] is None)
        else:
            assert not line or line.startswith("# "), line
    return found


def test_the_example_settings_load_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HMEM_CONFIG", str(DEPLOY / "hmem.toml"))
    assert {n: value for n, _, value in load_settings().every()} == {n: f.default for n, f in setting_fields().items()}


def test_the_example_settings_hold_every_setting_with_its_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = example_lines()
    assert set(lines) == set(setting_names())
    path = tmp_path / "hmem.toml"
    monkeypatch.setenv("HMEM_CONFIG", str(path))
    for name, (line, is_default) in lines.items():
        path.write_text(line, encoding="utf-8")
        value = {one: value for one, _, value in load_settings().every()}[name.lower()]
        default = setting_fields()[name.lower()].default
        assert (value == default) == is_default, name
        assert is_default == (default is not None), name
    path.write_text("\n".join(line for line, _ in lines.values()), encoding="utf-8")
    load_settings()
    assert len(tomllib.loads(path.read_text(encoding="utf-8"))) == len(lines)
