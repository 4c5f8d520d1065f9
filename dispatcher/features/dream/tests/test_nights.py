"""Nights that put memories in order, through the real dispatcher, Redis and night; the model's answers are given."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.features.dream import checks
from dispatcher.health.findings import Setup
from shared.hooks import feature_names
from tests.chaos.harness.forked import night
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.day.talking import CHAT, Talk, quick_talk
from tests.support.machine import wait_for
from tests.support.processes.forked import constant
from tests.support.world import Dispatcher, World

NOTED, NEWS = (
    "The flight to Porto is on 13 November 2026 at 07:10",
    "Our flight to Porto was moved, it is now on 14 November 2026 at 09:30.",
)
AFTER = "The flight to Porto is on 14 November 2026 at 09:30"
MOVED = {"do": "replace", "notes": ["flight"], "text": AFTER, "messages": ["moved"]}


class Model:
    """Answers a request of the dream: `changes` with the numbers of notes and messages by words in them."""

    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []
        self.prompts: list[str] = []
        self.raw: str | None = None

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if self.raw is not None:
            return self.raw
        return json.dumps({"changes": [self._numbered(one, prompt) for one in self.changes]})

    def _numbered(self, change: dict[str, Any], prompt: str) -> dict[str, Any]:
        notes = re.findall(r"^(\d+)\. \w+: (.*)$", prompt, re.MULTILINE)
        messages = re.findall(r"^\[(\d+)\] (.*)$", prompt, re.MULTILINE)
        return change | {
            "notes": [int(number) for words in change.get("notes", []) for number, text in notes if words in text],
            "messages": [
                int(number) for words in change.get("messages", []) for number, text in messages if words in text
            ],
        }


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def talk(light: World, model: Model) -> Iterator[Talk]:
    looks = constant("dispatcher.features.dream.part:LOOK_SECONDS", 0.2)
    with looks, OllamaApi({"llama3.1:latest": DIGEST}) as api:
        api.chat_with = model
        light.environment |= {"WRITER": "ollama:llama3.1", "OLLAMA_URL": api.url}
        yield quick_talk(light)


@pytest.fixture
def dispatcher(talk: Talk) -> Dispatcher:
    return talk.world.start_dispatcher()


def told(talk: Talk) -> None:
    """What is noted, and what has become of it."""
    talk.say("We fly to Porto.", f"Noted. [REMEMBER CODE: {NOTED}]")
    talk.say(NEWS, "Good to know.")
    talk.consolidated()


def listed(talk: Talk) -> str:
    return talk.world.command("hmem", "memory", "list", CHAT, "--json").stdout


def changes(talk: Talk, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        talk.world.command("hmem", "memory", "changes", *([CHAT] if more else []), "--json", *more).stdout
    )
    return found


def dreamt(talk: Talk) -> dict[str, Any]:
    """What became of the last night's changes, once the dispatcher has carried them out."""
    wait_for(lambda: talk.world.redis.hgetall("hcli:mem:dreamt"), "the dispatcher to put the memories in order")
    raw: Any = talk.world.redis.hgetall("hcli:mem:dreamt")
    return dict(json.loads(raw[max(raw)]))


def test_a_night_replaces_what_no_longer_holds_and_it_can_be_taken_back(
    talk: Talk, dispatcher: Dispatcher, model: Model
) -> None:
    told(talk)
    before = listed(talk)
    model.changes = [MOVED]
    talk.world.night()
    assert dreamt(talk) == {"changed": 1, "proposed": 0, "refused": {}}
    (change,) = changes(talk)
    assert (change["before"][0]["text"], change["after"], change["because"][0]["text"]) == (NOTED, AFTER, NEWS)
    shown = talk.say("/memory changes")
    assert f"− 1. {NOTED}\n+ {AFTER}" in shown and NEWS in shown
    assert "Taken back: 2." in talk.say("/memory changes undo 2")
    assert listed(talk) == before
    assert changes(talk) == []
    assert dispatcher.stop() == 0


def test_the_owner_sees_a_change_in_the_morning_and_on_the_page(
    talk: Talk, dispatcher: Dispatcher, model: Model
) -> None:
    report = pytest.importorskip("dispatcher.features.digest.part", reason="without the feature")
    page = pytest.importorskip("dispatcher.features.web.tests.conftest", reason="without the feature")
    told(talk)
    model.changes = [MOVED]
    talk.world.night()
    assert dreamt(talk)["changed"] == 1
    settings, morning = (
        talk.world.settings(report_chat=CHAT, report_at="00:00", chat_timezone="UTC"),
        time.time() + 86_400,
    )
    os.utime(settings.hmem_state_dir / "format.json", (0, 0))
    assert report.send_report(Setup(settings, talk.world.redis, lambda: morning, shutil.disk_usage))
    message: Any = talk.world.redis.lindex("hcli:mem:outbox:main", -1)
    assert "1 fact changed." in json.loads(message)["text"]
    assert json.loads(message)["buttons"] == [[{"label": "Show", "command": "/memory changes"}]]
    with page.serving(talk.world) as site:
        visitor = site.visitor()
        shown = visitor.get("/chat", chat=CHAT)
        assert f"+ {AFTER}" in shown and NEWS in shown
        assert "Taken back: 2." in visitor.post("/chat/act", chat=CHAT, words="undo 2")
        visitor.post("/chat/act", 400, chat=CHAT, words="drop everything")
    assert changes(talk) == []
    assert dispatcher.stop() == 0


#: How a request to the dream's model ends: what the scripted CLI answers by.
LAST_LINE = 'Answer with JSON only: {"changes": [{"do": "replace", "notes": [12], "text": "…", "messages": [3]}]}, or {"changes": []}\n'


def test_claude_writes_for_a_night_that_has_no_login(talk: Talk, model: Model) -> None:
    """Its requests wait in Redis while no dispatcher runs; then they are asked without session, memory or tools, and count as the chat's."""
    talk.world.environment |= {"WRITER": "claude:haiku", "WRITES": "facts,summaries"}
    dispatcher = talk.world.start_dispatcher()
    told(talk)
    assert dispatcher.stop() == 0
    (night,) = talk.world.night()
    assert "No dispatcher runs that could ask Claude" in json.dumps(night["without_model"])
    assert talk.world.redis.hlen("hcli:mem:writing:asked") == 1
    talk.will_answer(
        LAST_LINE, json.dumps({"changes": [{"do": "replace", "notes": [1], "text": AFTER, "messages": [3]}]})
    )
    before = len(talk.requests())
    dispatcher = talk.world.start_dispatcher()
    assert dreamt(talk)["changed"] == 1
    wait_for(lambda: talk.world.redis.hlen("hcli:mem:writing:written") == 1, "Claude's summary")
    assert not talk.world.redis.hlen("hcli:mem:writing:asked")
    for request in talk.requests()[before:]:
        assert (request.system, request.history, request.resumed) == ("", [], False)
    talk.world.say("later", "The heron is back.", timestamp=time.time())
    asked = len(talk.requests())
    (night,) = talk.world.night()
    assert night["without_model"] == {}
    wait_for(lambda: len(talk.requests()) == asked + 2, "the next night's summary and dream, of the new day alone")
    if "usage" in feature_names():
        assert talk.world.command("hmem", "usage", "--json").stdout.count('"chat_id": "9912"') == 1
    assert dispatcher.stop() == 0


def test_proposals_change_nothing_before_the_owner_says_yes(talk: Talk, dispatcher: Dispatcher, model: Model) -> None:
    talk.say("We fly to Porto.", f"Noted. [REMEMBER CODE: {NOTED}]")
    talk.say(NEWS, "Good to know.")
    talk.say("My dentist is called Dr Weber.", "Good.")
    talk.consolidated()
    before = listed(talk)
    model.changes = [
        MOVED,
        {"do": "replace", "notes": ["flight"], "text": "The flight goes to Rome", "messages": ["moved"]},
        {"do": "add", "text": "The dentist is called Dr Weber", "messages": ["dentist"]},
    ]
    talk.world.night(dream="propose")
    assert dreamt(talk) == {"changed": 0, "proposed": 2, "refused": {checks.NOT_SAID: 1}}
    assert listed(talk) == before
    assert [(one["night"], one["number"], one["proposed"]) for one in changes(talk)] == [(1, 1, True), (1, 3, True)]
    assert "Night 1 proposes (3):\n+ The dentist is called Dr Weber" in talk.say("/memory changes")
    assert "there is no such proposal" in talk.say("/memory changes yes 1 2")
    talk.say("/memory changes no 1 3")
    assert listed(talk) == before
    (made,) = changes(talk, "yes", "1", "1")
    assert (made["proposed"], made["after"]) == (False, AFTER)
    assert not talk.world.redis.exists("hcli:mem:dreams", "hcli:mem:dreams:proposed")
    assert dispatcher.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("point", ["dream:text-cached", "dream:sent"])
def test_a_night_killed_in_its_dream_changes_each_note_once(talk: Talk, model: Model, point: str) -> None:
    dispatcher = talk.world.start_dispatcher()
    told(talk)
    model.changes = [MOVED]
    code, printed = night(talk.world, HMEM_CRASH_AT=point)
    assert code == -signal.SIGKILL, printed
    talk.world.night()
    assert dreamt(talk)["changed"] == 1
    assert [one["after"] for one in changes(talk)] == [AFTER]
    assert len(model.prompts) == 1, "what was answered is not asked again"
    assert dispatcher.stop() == 0


def test_a_dispatcher_killed_after_the_changes_makes_none_twice(talk: Talk, model: Model) -> None:
    dispatcher = talk.world.start_dispatcher(HMEM_CRASH_AT="dream:carried-out")
    told(talk)
    model.changes = [MOVED]
    talk.world.night()
    assert dispatcher.process.wait(60) == -signal.SIGKILL
    dispatcher = talk.world.start_dispatcher()
    assert dreamt(talk)["changed"] == 1
    assert [one["number"] for one in changes(talk)] == [2]
    assert dispatcher.stop() == 0


def test_a_night_goes_on_without_what_a_model_should_have_said(talk: Talk, model: Model) -> None:
    model.raw = '{"changes": [{"do": "replace", "notes": [1], "te'
    talk.world.say("t1", NEWS, timestamp=time.time())
    (summary,) = talk.world.night()
    assert summary["published"]
    assert not talk.world.redis.exists("hcli:mem:dreams")


def test_forgetting_takes_what_waits_for_the_model(talk: Talk, model: Model) -> None:
    model.changes = [{"do": "add", "text": "The safe opens with 4711", "messages": ["4711"]}]
    talk.world.say("t1", "The safe opens with 4711.", timestamp=time.time())
    talk.world.night()
    talk.world.redis.hset(
        "hcli:mem:writing:asked", "x", json.dumps({"prompt": "The safe opens with 4711.", "model": ""})
    )
    assert b"4711" in next(iter(talk.world.redis.hvals("hcli:mem:dreams")))
    talk.world.command("hmem", "forget", "--matching", "4711", "--yes")
    assert not talk.world.redis.exists("hcli:mem:dreams", "hcli:mem:writing:asked")


def test_what_only_the_release_has_counts_once_that_is_served(talk: Talk, dispatcher: Dispatcher, model: Model) -> None:
    """An import never reaches the day store; the model's answer is there before the night has published."""
    model.changes = [{"do": "add", "text": "The dentist is called Dr Weber", "messages": ["dentist"]}]
    talk.world.say("t1", "My dentist is called Dr Weber.", timestamp=time.time() - 3_600)
    talk.world.night()
    assert dreamt(talk) == {"changed": 1, "proposed": 0, "refused": {}}
    assert dispatcher.stop() == 0
