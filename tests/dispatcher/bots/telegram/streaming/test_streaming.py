"""Answers that grow in the chat while they are written: drafts in private chats, edits elsewhere, and the final text once, whatever dies."""

from __future__ import annotations

import signal
import time
from collections import Counter

from shared.turns.signed import PartialAnswer
from tests.dispatcher.bots.telegram.test_crashes import dies_at
from tests.servers.telegram_messages import mention
from tests.support.day.telegram_bot import GROUP, Stage, last, wait_until
from tests.support.machine import wait_for
from tests.support.world import SECRET

ON = {"STREAM": "true"}
WAITING = "hcli:mem:bot:waiting:main"


def asked(stage: Stage, chat: int, text: str = "tell me") -> str:
    """Say it; the task's id."""
    if chat < 0:
        text = f"@memory_bot {text}"
        stage.api.say(chat, text, entities=mention(text))
    else:
        stage.api.say(chat, text)
    return str(stage.pop()["task_id"])


def test_in_a_private_chat_it_grows_as_a_draft_and_comes_once(stage: Stage, chat: int) -> None:
    stage.bot(**ON)
    task = asked(stage, chat)
    stage.drafted(chat, "…")
    assert stage.api.texts(chat) == [], "a draft is no message"
    stage.write(task, chat, "", "thinking")
    stage.drafted(chat, "Thinking…")
    stage.write(task, chat, "", "retrying")
    stage.drafted(chat, "Claude cannot be reached; trying again…")
    stage.write(task, chat, "It is **Lis")
    stage.drafted(chat, "It is **Lis")
    stage.write(task, chat, "It is **Lisbon**, ", "tool", "mcp__memory__search")
    stage.drafted(chat, "It is Lisbon,\n\nUsing memory: search…")
    _, _, entities = stage.api.drafts[chat]
    assert [one["type"] for one in entities] == ["bold", "italic"]
    stage.answer(task, "It is **Lisbon**, by the sea.")
    stage.shows(chat, "It is Lisbon, by the sea.")
    stage.quiet()
    answer = last(stage, chat)
    assert (answer.edits, answer.entities) == (["…"], [{"type": "bold", "offset": 6, "length": 6}])
    assert chat not in stage.api.drafts, "it went with the message"
    ids = {call.params["draft_id"] for call in stage.api.called("sendMessageDraft", chat)}
    assert len(ids) == 1


def test_in_a_group_it_grows_by_edits_of_the_placeholder(stage: Stage) -> None:
    stage.bot(**ON)
    task = asked(stage, GROUP)
    stage.shows(GROUP, "…")
    stage.write(task, GROUP, "", "thinking")
    stage.shows(GROUP, "Thinking…")
    stage.write(task, GROUP, "So *far")
    stage.shows(GROUP, "So *far")
    stage.answer(task, "So *far*.")
    stage.shows(GROUP, "So far.")
    stage.quiet()
    assert last(stage, GROUP).edits == ["…", "Thinking…", "So *far"]
    assert not stage.api.called("sendMessageDraft")


def test_what_the_dispatcher_has_not_signed_is_not_shown(stage: Stage, chat: int) -> None:
    bot = stage.bot(**ON)
    task = asked(stage, chat)
    made = PartialAnswer(str(chat), 1, "Send me your password")
    mine = PartialAnswer(str(chat), 5, "So far").to_json(SECRET, task)
    key = f"hcli:mem:partial:{task}"
    others = made.to_json("another secret", task), made.to_json(SECRET, "tg-4242-1")
    for raw in (*others, mine.replace(b"So far", b"So bad"), b"{" * 300_000, b""):
        stage.redis.set(key, raw)
        time.sleep(0.4)
    stage.redis.delete(key)
    stage.redis.rpush(key, "another type")
    time.sleep(0.4)
    stage.redis.delete(key)
    stage.redis.set(key, mine)
    stage.drafted(chat, "So far")
    stage.redis.set(key, PartialAnswer(str(chat), 4, "an older one").to_json(SECRET, task))
    time.sleep(0.4)
    stage.answer(task, "The end.")
    stage.shows(chat, "The end.")
    seen = {
        call.params.get("text")
        for method in ("sendMessageDraft", "editMessageText")
        for call in stage.api.called(method)
    }
    assert not {"Send me your password", "So bad", "an older one"} & seen
    assert bot.said("is not signed by the dispatcher and is ignored")


def test_notices_need_no_placeholder_and_the_answer_takes_their_place(stage: Stage, chat: int) -> None:
    stage.bot(**ON)
    update = stage.api.say(chat, "Is anybody there?")
    task = f"tg-4242-{update}"
    stage.drafted(chat, "…")
    stage.waits(task, at=time.time() - 100)
    wait_until(lambda: "No dispatcher is running" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    stage.pop()
    stage.redis.set(f"hcli:results:{task}", b"{")
    wait_until(lambda: "does not have my signature" in str(stage.api.texts(chat)), lambda: str(stage.api.texts(chat)))
    stage.redis.delete(f"hcli:results:{task}")
    stage.write(task, chat, "So far")
    stage.shows(chat, "So far")
    stage.answer(task, "Now I am.")
    stage.shows(chat, "Now I am.")
    stage.quiet()


def test_a_flood_pauses_what_is_partial_and_no_answer(stage: Stage) -> None:
    bot = stage.bot(**ON)
    task = asked(stage, GROUP)
    stage.placeholder_of(task)
    stage.api.flood("editMessageText", 600, chat=GROUP)
    stage.write(task, GROUP, "So far")
    wait_for(lambda: bot.said("partial answers pause in a chat"), "the pause")
    stage.write(task, GROUP, "So far and further")
    time.sleep(1.5)
    stage.answer(task, "The end.")
    stage.shows(GROUP, "The end.")
    stage.quiet()
    texts = [one.params.get("text") for one in stage.api.called("editMessageText", GROUP) if one.status == 200]
    assert "So far and further" not in texts


def test_a_partial_edit_that_is_slow_never_overwrites_the_answer(stage: Stage) -> None:
    stage.bot(**ON)
    task = asked(stage, GROUP)
    stage.placeholder_of(task)
    stage.api.latency = 0.6
    stage.write(task, GROUP, "So far")
    wait_until(lambda: stage.api.texts(GROUP) == ["So far"], lambda: "the edit to be under way")
    stage.answer(task, "The end.")
    stage.shows(GROUP, "The end.")
    stage.api.latency = 0.0
    stage.quiet()
    time.sleep(0.5)
    assert stage.api.texts(GROUP) == ["The end."]


# Deaths.


def test_after_a_death_at_any_point_the_final_text_is_there_once(stage: Stage, chat: int) -> None:
    first = stage.bot(**ON)
    task = asked(stage, chat)
    stage.drafted(chat, "…")
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    stage.write(task, chat, "So **far**")
    dies_at(stage, "partial-shown", **ON)
    text = "# The end\n\nIt is **here**.\n" + "w " * 1980 + "\n" + "last " * 100
    stage.answer(task, text)
    for _ in range(2):
        dies_at(stage, "placeholder-sent", **ON)
    dies_at(stage, "answer-edited", **ON)
    dies_at(stage, "all-sent", **ON)
    newest = stage.bot_again(**ON)
    stage.quiet()
    shown = Counter(one.partition("\n")[0][:4].strip() for one in stage.api.texts(chat))
    assert shown == Counter({"The": 1, "last": 1, "…": 2})
    (answer,) = [one for one in stage.api.messages(chat) if one.text.startswith("The end")]
    assert "bold" in {one["type"] for one in answer.entities}
    assert newest.stop() == 0


def test_a_chat_that_takes_no_drafts_gets_edits_and_the_others_drafts(stage: Stage, chat: int) -> None:
    other = stage.new_chat()
    stage.api.fail("sendMessageDraft", 400, "Bad Request: TEXTDRAFT_PEER_INVALID", chat=chat, times=99)
    stage.bot(**ON)
    task, theirs = asked(stage, chat), asked(stage, other)
    stage.placeholder_of(task)
    stage.write(task, chat, "So far")
    stage.write(theirs, other, "Theirs so far")
    stage.shows(chat, "So far")
    stage.drafted(other, "Theirs so far")
