"""The choices of /model as buttons, which the bot answers alone."""

from __future__ import annotations

from tests.dispatcher.bots.telegram.conftest import one_bot
from tests.support.day.telegram_bot import GROUP, Stage, labels, press, say

stage = one_bot(OWNERS="7")


def test_the_model_is_chosen_by_a_button(stage: Stage) -> None:
    chat = stage.new_chat()
    asked = say(stage, chat, "/model", "Model of this chat: default")
    assert labels(asked) == ["opus", "sonnet", "haiku", "✓ default"]
    chosen = press(stage, chat, "haiku", "Model of this chat: haiku.")
    assert chosen.id == asked.id
    assert labels(chosen) == ["opus", "sonnet", "✓ haiku", "default"]
    stage.api.say(chat, "hello")
    task = stage.pop()
    assert task["model"] == "haiku"
    stage.answer(task["task_id"], "hi")
    stage.quiet()
    assert stage.redis.ttl(f"hcli:mem:bot:model:{chat}") == -1
    say(stage, chat, "/model default", "Model of this chat: default")
    assert not stage.redis.exists(f"hcli:mem:bot:model:{chat}")


def test_a_member_of_a_group_is_shown_the_model_without_buttons(stage: Stage) -> None:
    bea, ada = {"id": 8, "is_bot": False, "first_name": "Bea"}, {"id": 7, "is_bot": False, "first_name": "Ada"}
    assert labels(say(stage, GROUP, "/model", "Model of this chat: default", user=bea)) == []
    assert labels(say(stage, GROUP, "/model", "Model of this chat: default", user=ada))
