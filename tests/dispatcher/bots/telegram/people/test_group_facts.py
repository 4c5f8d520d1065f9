"""A group in which each asks what they like: the real bot, dispatcher and CLI; the model answers by the prompt that reached it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.servers.messages_api import Reply
from tests.support.day.telegram_bot import GROUP, Stage, say
from tests.support.processes.talk import Talk, talking

ANN, BOB = ({"id": number, "is_bot": False, "first_name": name} for number, name in ((8, "Ann"), (9, "Bob")))


def model(request: dict[str, Any]) -> Reply:
    """Keeps what somebody says they like; asked, it reads from the prompt what is noted of who asks."""
    system = json.dumps(request["system"])
    last = json.dumps([one for one in request["messages"] if one["role"] == "user"][-1], ensure_ascii=False)
    last = last.replace("\u2060", "")
    code = re.findall(r"Tag code of this request: (\w+)", system)[-1]
    if told := re.search(r"I like (\w+) tea", last):
        return f"Fine.\n[REMEMBER {code}: The user likes {told[1]} tea]"
    own = re.search(
        r"Of (\w+) \(user id (\d+)\), who asks now, and of the whole chat:\\n[0-9]+\. noted [^:]+: ([^\\]+)", system
    )
    others = re.findall(r", told by (\w+): The user likes (\w+) tea", system)
    return f"{own[1]} {own[2]}: {own[3]}; others: {others}" if own else "I do not know."


def group_says(stage: Stage, text: str, words: str, user: dict[str, Any]) -> str:
    mention: dict[str, Any] = {"entities": [{"type": "mention", "offset": 0, "length": len("@memory_bot")}]}
    return say(stage, GROUP, f"@memory_bot {text}", words, user=user, **mention).text


@pytest.mark.slow
def test_each_is_told_what_they_like(redis_url: str, tmp_path: Path) -> None:
    with talking(redis_url, tmp_path, OWNERS="7") as talk:
        both_are_told(talk)


def both_are_told(talk: Talk) -> None:
    talk.answer, stage = model, talk.stage
    group_says(stage, "I like green tea", "Fine.", ANN)
    group_says(stage, "I like black tea", "Fine.", BOB)
    said = group_says(stage, "what do I like?", "others", ANN)
    assert said == "Ann 8: The user likes green tea; others: [('Bob', 'black')]"
    said = group_says(stage, "what do I like?", "Bob 9", BOB)
    assert said == "Bob 9: The user likes black tea; others: [('Ann', 'green')]"
    impostor = {"id": 66, "is_bot": False, "first_name": "Ann"}
    assert "I do not know." in group_says(stage, "what do I like?", "I do not know", impostor)
    listed = say(stage, GROUP, "/memory", "Facts:", user=ANN).text
    assert "Ann: The user likes green tea" in listed
    assert "Bob: The user likes black tea" in listed
    world = stage.world
    assert "Bob: The user likes black tea" in world.command("hmem", "memory", "list", "--", str(GROUP)).stdout
    told = json.loads(world.command("hmem", "memory", "list", "--json", "--", str(GROUP)).stdout)["memories"]
    assert [(one["user_id"], one["name"]) for one in told] == [("8", "Ann"), ("9", "Bob")]
    folder = world.root / "exported"
    world.command("hmem", "export", str(GROUP), "--out", str(folder))
    assert "Bob: The user likes black tea" in (folder / "memories.md").read_text()
    lines = [json.loads(line) for line in (folder / "memories.jsonl").read_text().splitlines()]
    assert [(one["user_id"], one["name"]) for one in lines] == [("8", "Ann"), ("9", "Bob")]
    world.command("hmem", "memory", "import", "--", "-100555", str(folder / "memories.jsonl"))
    assert "Ann: The user likes green tea" in world.command("hmem", "memory", "list", "--", "-100555").stdout
    world.command("hmem", "memory", "import", "5151", str(folder / "memories.jsonl"))
    assert "Ann:" not in world.command("hmem", "memory", "list", "5151").stdout, "a private chat is one person's"
    preview = world.command("hmem", "forget", f"--chat={GROUP}", check=False)
    assert "(fact of Bob): The user likes black tea" in preview.stdout + preview.stderr
