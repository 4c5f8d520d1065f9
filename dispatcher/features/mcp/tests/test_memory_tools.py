"""The real Claude CLI with the memory server of one chat: which tools it offers, what reaches the model, and whose servers it does not start."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.servers.messages_api import MessagesApi, ToolCall, tag_code, tool_results
from tests.support.world import REAL_CLAUDE as CLAUDE
from tests.support.world import World

MAY = 1_778_241_900.0  # 2026-05-08 12:05 UTC


@pytest.fixture
def talked(light: World) -> World:
    """Two chats and a release of both."""
    if not CLAUDE.exists():
        pytest.fail("The Claude CLI is not installed. Run scripts/setup --dev --with-claude.")
    for chat, code in (("9912", "4711"), ("-9912", "8812")):
        light.say(f"t{code}", f"The boiler code is {code}.", chat_id=chat, timestamp=MAY)
    light.night()
    light.environment |= {
        "CLAUDE_BIN": str(CLAUDE), "ANTHROPIC_API_KEY": "test", "MEMORY_MCP": "read", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip
    return light


def marker(world: World, name: str) -> dict[str, Any]:
    """A server that only leaves a sign that it was started, and of its last argument."""
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    return {"command": sys.executable, "args": ["-c", write, str(world.root / name), "--chat=${ANTHROPIC_API_KEY}"]}


@pytest.mark.slow
def test_through_the_dispatcher(talked: World) -> None:
    """MEMORY_MCP=read: the file is there for the call alone, and the tools of the owner's own servers stay beside ours."""
    own = talked.root / "own.json"
    own.write_text(json.dumps({"mcpServers": {"own": marker(talked, "own-started")}}))
    search = ToolCall("mcp__memory__memory_search", {"query": "boiler code"})
    with MessagesApi(lambda request: "The code is 8812." if tool_results(request) else search) as api:
        running_dispatcher = talked.start_dispatcher(ANTHROPIC_BASE_URL=api.url, CLAUDE_MCP_CONFIG=str(own))
        answer = talked.command("hmem", "talk", "-9912", "--say", "What is the code?").stdout
        assert running_dispatcher.stop() == 0
    assert answer.strip() == "The code is 8812."
    (result,) = tool_results(api.requests[-1])
    text = json.dumps(result["content"])
    assert (result.get("is_error"), "8812" in text, "4711" in text) == (None, True, False)
    assert (talked.root / "own-started").exists()
    prompts = talked.root / "state" / "prompts"
    assert not [path for path in prompts.rglob("*") if not path.is_dir() and path.suffix in (".json", ".md", ".sock")]


def test_a_number_that_a_tool_has_listed_may_stand_in_a_tag(talked: World) -> None:
    """As one in the prompt; without the list it was not shown, and is refused."""
    facts = talked.root / "facts.jsonl"
    texts = ["The bike is red", *(f"The shelf number {number} holds the book {number + 7}" for number in range(60))]
    facts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    talked.command("hmem", "memory", "import", "9912", str(facts))

    asked = list[dict[str, Any]]()

    def says(request: dict[str, Any]) -> str | ToolCall:
        asked.append(request)
        lists = len(asked) == 2
        return ToolCall("mcp__memory__memory_facts", {}) if lists else f"Gone.\n[FORGET {tag_code(request)}: 1]"

    with MessagesApi(says) as api:
        dispatcher = talked.start_dispatcher(ANTHROPIC_BASE_URL=api.url)
        talked.command("hmem", "talk", "9912", "--say", "Good morning!")
        assert "The bike is red" in talked.command("hmem", "memory", "list", "9912").stdout
        talked.command("hmem", "talk", "9912", "--say", "Good morning again!")
        assert "The bike is red" not in talked.command("hmem", "memory", "list", "9912").stdout
        assert dispatcher.stop() == 0
