"""Which front end asks: each bot the questions of its own chats."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import cast

from dispatcher.features.approvals import keys
from dispatcher.features.approvals.questions import ToolDecision, ToolQuestion
from tests.dispatcher.bots.console.test_talk import Terminal
from tests.support.day.telegram_bot import staged
from tests.support.machine import wait_for
from tests.support.world import SECRET, World


def test_a_question_is_left_to_the_bot_of_its_chat(redis_url: str, tmp_path: Path) -> None:
    with staged(redis_url, tmp_path) as stage:
        stage.bot()
        names = {"console": "0" * 20, "5": "1" * 20}
        for chat, name in names.items():
            question = ToolQuestion(chat, "cli", "t", "Bash", "ls", time.time() + 60)
            stage.redis.hset(keys.OPEN, name, question.to_json(SECRET, name))
        wait_for(lambda: not stage.redis.hexists(keys.OPEN, names["5"]), "the end of a chat's that is not allowed")
        assert stage.redis.hexists(keys.OPEN, names["console"])


def test_a_terminal_asks_about_its_own_message(light: World) -> None:
    terminal, redis = Terminal(light), light.redis
    terminal.shows("> ")
    terminal.type("what is the code?\n")
    wait_for(lambda: redis.llen("hcli:tasks"), "the message")
    name, approval = json.loads(redis.lindex("hcli:tasks", 0) or b"")["task_id"], "0123456789abcdef0123"
    for task, found in ((name, approval), ("another", "f" * 20)):
        question = ToolQuestion("console", "cli", task, "Bash", "rm \x1b", time.time() + 60)
        redis.hset(keys.OPEN, found, question.to_json(SECRET, found))
    terminal.shows("Claude wants to use Bash")
    terminal.shows("rm \N{REPLACEMENT CHARACTER}")
    terminal.type("y\n")
    wait_for(lambda: redis.exists(keys.decision(approval)), "the decision")
    decision = ToolDecision.verified(SECRET, approval, cast(bytes, redis.get(keys.decision(approval))))
    assert (decision.verdict, decision.user_id) == ("allowed", "cli")
    assert not redis.exists(keys.decision("f" * 20))
    terminal.process.terminate()
    terminal.process.wait(60)
