"""The whole way of an answer that grows, with the real Claude CLI: the model's words at a loopback API, thinking, a tool, and what the chat shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.messages_api import MessagesApi, Streamed, ToolCall, tag_code
from tests.servers.telegram_messages import Call
from tests.support.day.telegram_bot import Stage, staged, wait_until
from tests.support.world import real_claude

#: Seconds between two pieces of what the model says.
PAUSE = 0.2


def model(request: dict[str, Any]) -> Streamed:
    """It thinks, looks something up, and answers with a tag."""
    newest = str([one for one in request["messages"] if one["role"] == "user"][-1])
    if "tool_result" not in newest:
        call = ToolCall("Bash", {"command": "sleep 2; echo 4711", "description": "looks"})
        return Streamed(("Let me ", "look. "), PAUSE, thinking=("Hm, ", "a boiler."), call=call)
    tag = f"[REMEMBER {tag_code(request)}: the code of the boiler is 4711]"
    pieces = (tag[at : at + 9] for at in range(0, len(tag), 9))
    return Streamed(("The code ", "is **47", "11**.", "\n\n", *pieces), PAUSE)


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made, MessagesApi(model) as claude:
        tools = "Bash(sleep *),Bash(echo *)"
        made.world.start_dispatcher(**real_claude(claude.url, CLAUDE_ALLOWED_TOOLS=tools))
        made.bot(STREAM="true")
        yield made


def shown(calls: list[Call]) -> list[str]:
    """What the chat showed, one after the other, without repetitions."""
    texts = [call.params["text"] for call in calls if "text" in call.params and call.status == 200]
    return [text for number, text in enumerate(texts) if not number or text != texts[number - 1]]


def test_it_grows_as_the_model_speaks_and_ends_formatted(stage: Stage) -> None:
    chat = 9950
    stage.api.say(chat, "What is the code of the boiler?")
    wait_until(
        lambda: stage.api.texts(chat) == ["The code is 4711."],
        lambda: f"{stage.api.texts(chat)}, {stage.world.dispatchers[0].log.read_text()[-2000:]}",
    )
    stage.quiet()
    calls = [call for call in list(stage.api.calls) if str(call.params.get("chat_id")) == str(chat)]
    seen = shown(calls)
    assert seen[0] in ("…", "Thinking…")
    words = [text for text in seen[:-1] if text not in ("…", "Thinking…")]
    assert words[0].startswith("Let me"), "the first words are shown, whatever the pace"
    assert any(text.endswith("Using Bash…") for text in words)
    assert seen[-1] == "The code is 4711."
    assert not [text for text in seen if "REMEMBER" in text or "[" in text], seen
    assert [one.text for one in stage.api.messages(chat) if one.by_bot] == ["The code is 4711."]
    assert not list(stage.redis.scan_iter(match="hcli:mem:partial:*")), "they go with the result"
