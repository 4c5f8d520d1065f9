"""`scripts/bench corrections`: what it prints of models that do well, that nothing is asked without --live, and its data."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import typer

from scripts.benchmarks.corrections import (
    Correction,
    Language,
    Outcome,
    corrections,
    judged,
    read_corrections,
    stands,
    wilson,
)
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.world import REPOSITORY, World


def bench(world: World, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.benchmarks.main", "corrections", *arguments]
    environment = world.variables(PYTHONPATH=str(REPOSITORY), **more)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def well_dreamt(prompt: str) -> str | None:
    """The answer of a model that replaces the right note, found by the news."""
    for case in read_corrections("de"):
        if case.news in prompt and '{"changes": []}' in prompt:
            number = re.findall(rf"^(\d+)\. fact: {re.escape(case.fact)}$", prompt, re.MULTILINE)
            change = {"do": "replace", "notes": [int(number[0])], "text": new_note(case), "messages": [1]}
            return json.dumps({"changes": [change]})
    return None


def new_note(case: Correction) -> str:
    text = case.fact
    for old, new in zip(case.old, case.has, strict=True):
        text = text.replace(old, new)
    return text


def test_the_dream_of_a_model_that_does_well(world: World) -> None:
    with OllamaApi({"llama3.1:latest": DIGEST}) as api:
        api.chat_with = well_dreamt
        more = {"OLLAMA_URL": api.url, "CLAUDE_BIN": str(REPOSITORY / "tests/servers/scripted_claude.py")}
        arguments = ("--writer", "ollama:llama3.1", "--language", "de", "--count", "2", "--way", "dream")
        done = bench(world, "--live", *arguments, **more)
    assert done.returncode == 0, done.stderr
    for name in ("de ", "all"):
        assert f"dream {name} hold 2 of 2 (34 to 100 %); wrongly replace 0 of 2 (0 to 66 %)" in done.stdout
    assert "changes: 2 carried out" in done.stdout and "WRITER ollama:llama3.1" in done.stdout


def test_nothing_is_asked_without_live(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CLAUDE_BIN", "/does/not/exist")
    with pytest.raises(typer.Exit) as ended:
        corrections(live=False)
    assert (ended.value.exit_code, capsys.readouterr().out) == (2, "")


@pytest.mark.parametrize("language", Language)
def test_the_corrections_can_be_judged(language: Language) -> None:
    cases = read_corrections(language)
    assert len(cases) == len({case.fact for case in cases}) == len({case.news for case in cases}) == 20
    for case in cases:
        assert case.has and replace(case, old=()).is_new(case.news), case
        assert not case.is_new(case.fact), case
        assert not case.is_new(case.bystander), case
        assert all(stands(old, case.fact) for old in case.old), case
        assert judged(case, [case.fact, case.bystander]) == Outcome(holds=False, wrongly_replaces=False), case


def test_the_interval_is_wilsons() -> None:
    assert wilson(18, 20) == pytest.approx((0.699, 0.972), abs=0.001)
