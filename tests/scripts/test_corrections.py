"""`scripts/bench corrections`: what it prints of models that do well, that nothing is asked without --live, and its data."""

from __future__ import annotations

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
from tests.support.day.talking import quick_talk
from tests.support.world import REPOSITORY, World


def bench(world: World, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.benchmarks.main", "corrections", *arguments]
    environment = world.variables(PYTHONPATH=str(REPOSITORY), **more)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def new_note(case: Correction) -> str:
    text = case.fact
    for old, new in zip(case.old, case.has, strict=True):
        text = text.replace(old, new)
    return text


def test_a_tag_that_replaces_the_right_note_holds(world: World) -> None:
    (case, *_), talk = read_corrections("en"), quick_talk(world)
    talk.will_answer(case.news, f"Noted. [REMEMBER CODE: {new_note(case)} | REPLACES: 1]")
    done = bench(world, "--live", "--language", "en", "--count", "1", "--way", "tags")
    assert done.returncode == 0, done.stderr
    assert re.search(r"tags  en  hold 1 of 1 .*; wrongly replace 0 of 1 ", done.stdout), done.stdout


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
