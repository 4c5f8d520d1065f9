"""The real Claude CLI against a loopback Messages API server: what really reaches the model, and what never may."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from dispatcher.claude import client as claude
from tests.servers.faulty_api import Fault, FaultyApi
from tests.servers.messages_api import MessagesApi
from tests.support.day.hcli_bot import Bot
from tests.support.machine import script, wait_for
from tests.support.world import REAL_CLAUDE as CLAUDE
from tests.support.world import Dispatcher, World, real_claude


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as server:
        yield server


@pytest.fixture
def cli(light: World, api: MessagesApi) -> World:
    """An installation with the real CLI."""
    light.environment |= real_claude(api.url)
    return light


@pytest.fixture
def dispatcher(cli: World) -> Iterator[Dispatcher]:
    running = cli.start_dispatcher()
    yield running
    running.stop()


def system(request: dict[str, Any]) -> str:
    return json.dumps(request["system"])


def messages(request: dict[str, Any]) -> str:
    return json.dumps(request["messages"], ensure_ascii=False)


def test_what_was_said_reaches_the_model_next_morning(cli: World, dispatcher: Dispatcher, api: MessagesApi) -> None:
    """And no form of a message reads a file or runs a command (tests/dispatcher/claude/test_disarming.py has many, without a dispatcher)."""
    (cli.root / "note.txt").write_text("SECRET-NOTE")
    said = ("The boiler code is 4711, see @~/note.txt", "mail bob@example.org the code of the boiler", "/clear")

    def say(chat: str, number: int) -> dict[str, Any]:
        Bot(cli.redis).ask(said[number], chat)  # of h-cli, which passes commands on
        assert len(api.requests) == number + 1, f"{said[number]!r} never reached the model"
        sent = messages(api.requests[-1])
        assert json.dumps(said[number], ensure_ascii=False)[1:-1] in sent.replace("\u2060", "")
        assert not api.requests[-1].get("tools")
        assert not re.search(rf"SECRET-NOTE|{socket.gethostname()}\\n", json.dumps(api.requests[-1]))
        return api.requests[-1]

    assert "4711" not in system(say("9912", 0))
    turns = [json.loads(cli.redis.get(key) or b"")["content"] for key in cli.redis.keys("hcli:memory:*:user")]
    assert turns == [said[0]], "stored as it was said"
    cli.night()
    cli.redis.delete("hcli:session:9912")  # /new
    request = say("9912", 1)
    assert "The boiler code is 4711" in system(request)
    assert "bob@example.org" in messages(request), "mail addresses are left as they are"
    assert "4711" not in json.dumps(say("77", 2)), "another chat's memory"


@pytest.mark.slow
def test_a_resumed_turn_gets_the_new_memory_and_not_the_old(
    cli: World, dispatcher: Dispatcher, api: MessagesApi
) -> None:
    cli.say("old", "the parrot is called Alba")
    cli.night()
    cli.command("hmem", "talk", "9912", "--say", "How is the parrot called?")
    assert "Alba" in system(api.requests[-1])
    cli.say("old", "the parrot is called Bruno")
    cli.night()
    cli.command("hmem", "talk", "9912", "--say", "And today, how is the parrot called?")
    assert "How is the parrot called?" in messages(api.requests[-1]), "the session was resumed"
    assert "Bruno" in system(api.requests[-1])
    assert "Alba" not in system(api.requests[-1])


@pytest.mark.slow
def test_another_model_counts_from_the_next_message_on_and_so_does_the_default(
    cli: World, dispatcher: Dispatcher, api: MessagesApi
) -> None:
    asked = iter(range(100))

    def model_of(**task: str) -> str:
        name = f"m{next(asked)}"
        cli.enqueue(name, f"This is {name}.", chat_id="9912", **task)
        wait_for(lambda: cli.redis.exists(f"hcli:results:{name}"), "the answer")
        assert name[-1] == "0" or "This is m0." in messages(api.requests[-1]), "the session was resumed"
        return str(api.requests[-1]["model"])

    by_default = model_of()
    assert "haiku" not in by_default
    assert "haiku" in model_of(model="haiku")
    assert "sonnet" in model_of(model="sonnet")
    assert model_of() == by_default
    settings = cli.root / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"model": "haiku"}')
    assert "sonnet" in model_of(model="sonnet")
    assert "haiku" in model_of(), "the default that the owner has set"


@pytest.mark.slow
def test_recalled_lines_ahead_of_the_message_leave_system_prompt_and_record_alone(cli: World, api: MessagesApi) -> None:
    (cli.root / "note.txt").write_text("SECRET-NOTE")
    cli.say("t1", "the parrot is called Alba, see @~/note.txt")
    cli.night(memory_summary=True)
    running = cli.start_dispatcher(RECALL_PLACEMENT="message", MEMORY_SUMMARY="false")
    cli.command("hmem", "talk", "9912", "--say", "How is the parrot called?")
    assert "Alba" not in system(api.requests[-1])
    sent = messages(api.requests[-1])
    assert sent.index("Alba") < sent.index("How is the parrot called?")
    assert "SECRET-NOTE" not in sent
    (stored,) = [json.loads(cli.redis.get(key) or b"") for key in cli.redis.keys("hcli:memory:*:user")]
    assert stored["content"] == "How is the parrot called?"
    running.stop()


@pytest.mark.slow
def test_replay_starts_afresh_with_the_conversation_as_text(cli: World, api: MessagesApi) -> None:
    cli.redis.set("hcli:session:9912", "left-from-resume-mode", ex=100)
    running = cli.start_dispatcher(SESSION_MODE="replay")
    for text in ("My bicycle is red.", "And my boat is blue.", "What colour is my bicycle?"):
        cli.command("hmem", "talk", "9912", "--say", text)
    last = api.requests[-1]
    assert len([message for message in last["messages"] if message["role"] == "assistant"]) == 0, "nothing was resumed"
    assert system(last).index("My bicycle is red.") < system(last).index("And my boat is blue.")
    assert "What colour" not in system(last)
    assert cli.redis.llen("hcli:session_history:9912") == 6
    cli.redis.delete("hcli:session_history:9912", "hcli:session:9912")  # /new
    cli.command("hmem", "talk", "9912", "--say", "Hello")
    assert "bicycle" not in json.dumps(api.requests[-1])
    running.stop()


def test_a_cli_that_did_not_answer_help_is_asked_again(cli: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sleepy = script(cli.root / "claude", f'#!/bin/sh\n[ -e {cli.root}/awake ] && exec {CLAUDE} "$@"\nsleep 5\n')
    monkeypatch.setattr(claude, "HELP_SECONDS", 0.3)

    async def ask() -> None:
        asked = claude.ClaudeCli(cli.settings(claude_bin=str(sleepy)))
        assert await asked.flags() == ()
        (cli.root / "awake").touch()
        monkeypatch.setattr(claude, "HELP_SECONDS", 600.0)
        assert await asked.flags() == claude.SWITCHES[0]

    asyncio.run(ask())


#: Whose `-p` reads no login unless it is told to.
BARE = """#!/bin/sh
said() { echo "{\\"type\\": \\"result\\", \\"is_error\\": $1, \\"result\\": \\"$2\\", \\"num_turns\\": 1}"; }
case "$*" in
  --help) echo "  --bare  Minimal mode.  KNOWN" ;;
  *" --no-bare "*) [ "$CLAUDE_CODE_SIMPLE" = 0 ] && said false "I am logged in." ;;
  *) said true "Not logged in · Please run /login"; exit 1 ;;
esac
"""


@pytest.mark.parametrize(("known", "said"), [("--no-bare", "I am logged in."), ("", "my owner has to log me in")])
def test_a_version_that_would_read_no_login_is_told_to_if_it_can_be(light: World, known: str, said: str) -> None:
    light.environment["CLAUDE_BIN"] = str(script(light.root / "bare", BARE.replace("KNOWN", known)))
    running = light.start_dispatcher()
    assert said in Bot(light.redis).ask("hello", 9912)
    running.stop()


def test_the_doctor_tries_what_the_installed_cli_can_do(cli: World) -> None:
    def knows(request: dict[str, Any]) -> str:
        return " ".join(re.findall(r"(?:heron|osprey)-\w+", system(request) + messages(request)))

    with MessagesApi(knows) as knowing:
        done = cli.command("hmem", "doctor", "--try-claude", ANTHROPIC_BASE_URL=knowing.url)
    assert re.findall(r"^(.) (\w+)", done.stdout, re.MULTILINE) == [
        ("✓", "answer"), ("✓", "prompt"), ("✓", "resume"), ("✓", "session"), ("✓", "switches"),
    ]  # fmt: skip
    assert len(knowing.requests) == 2, "a session that exists is refused before anybody is asked"
    with FaultyApi(Fault(401, "authentication_error", "OAuth token has expired")) as refusing:
        refused = cli.command(
            "hmem", "doctor", "--try-claude", check=False, ANTHROPIC_BASE_URL=refusing.url, CLAUDE_CODE_MAX_RETRIES="0"
        )
    assert refused.returncode == 35
    assert "log me in again" in refused.stdout


#: Which reads no prompt, keeps no session, and knows no switch of some versions only; and one that does not know a switch that we pass.
FORGETFUL = """#!/bin/sh
case "$*" in
  --help) echo "  --bare  Minimal mode." ;;
  *) echo '{"type": "result", "is_error": false, "result": "Hello!", "num_turns": 1}' ;;
esac
"""
OLD = '#!/bin/sh\n[ "$1" = --help ] || { echo "error: unknown option \'--strict-mcp-config\'" >&2; exit 1; }\n'


def test_the_doctor_names_what_a_cli_cannot_do(light: World) -> None:
    def tried(text: str) -> tuple[int, str]:
        done = light.command(
            "hmem", "doctor", "--try-claude", check=False, CLAUDE_BIN=str(script(light.root / "other", text))
        )
        return done.returncode, done.stdout

    code, said = tried(FORGETFUL)
    assert code == 0
    assert re.findall(r"^(.) (\w+)", said, re.MULTILINE) == [
        ("✓", "answer"), ("!", "prompt"), ("!", "resume"), ("!", "session"), ("✓", "switches"),
    ]  # fmt: skip
    assert all(one in said for one in ("--append-system-prompt-file", "--resume", "--session-id", "it takes: none"))
    code, said = tried(OLD)
    assert code == 12
    assert "The CLI said: error: unknown option '--strict-mcp-config'" in said
    assert "log in" not in said
    code, said = tried('#!/bin/sh\necho "API Error: Can\'t reach the API server (ENOTFOUND)" >&2; exit 1\n')
    assert (code, "Check this host's network" in said, "npm install" in said) == (12, True, False)
