"""The exports of ChatGPT and Claude: what was shown comes in once, with its times and titles, and nothing that was not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nightly.imports.readers.conversations import OTHER_BRANCH, OTHER_CONVERSATION
from tests.nightly.imports.exports.builders import (
    NOON,
    claude_conversation,
    claude_message,
    gpt_conversation,
    gpt_node,
    left,
    read,
    said,
    turns,
    unread,
    written,
    zipped,
)

IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}


def test_chatgpt_keeps_what_was_shown(tmp_path: Path) -> None:
    talk = gpt_conversation(
        gpt_node("sys", "root", "system", "You are helpful", metadata={"is_visually_hidden_from_conversation": True}),
        gpt_node("ctx", "sys", "user", {"content_type": "user_editable_context", "user_profile": "x"}),
        gpt_node("q", "ctx", "user", {"content_type": "multimodal_text", "parts": [IMAGE, "what is this? 🦉"]}, NOON),
        gpt_node("think", "q", "assistant", {"content_type": "thoughts", "thoughts": []}, NOON + 1),
        gpt_node("call", "think", "assistant", {"content_type": "code", "text": "search()"}, NOON + 2, recipient="web"),
        gpt_node("tool", "call", "tool", "found something", NOON + 3),
        gpt_node("a", "tool", "assistant", "a heron", NOON + 4),
        gpt_node("more", "a", "assistant", "It stands in water.", None),
        gpt_node("hid", "more", "user", "hidden prompt", metadata={"is_visually_hidden_from_conversation": True}),
    )
    reads = read("chatgpt", written(tmp_path / "conversations.json", [talk]))
    assert said(reads) == [("user", "what is this? 🦉"), ("asst", "a heron"), ("asst", "It stands in water.")]
    question, answer, more = turns(reads)
    assert [turn.timestamp for turn in (question, answer, more)] == [NOON, NOON + 4, NOON + 4.001]
    assert question.exchange == answer.exchange != more.exchange
    assert len({turn.task_id for turn in (question, answer, more)}) == 3
    assert question.origin.to_json() == {"attachment": {"kind": "photo"}}
    assert [turn.extra["conversation"] for turn in turns(reads)] == ["Boiler"] * 3
    assert [turn.extra["source"] for turn in turns(reads)] == ["chatgpt"] * 3
    assert (question.title, "Boiler" in question.words) == ("Boiler", False)
    assert unread(reads) == []
    assert sorted(left(reads)) == [
        "a call of a tool",
        "hidden by ChatGPT",
        "of the role system, not said by anybody",
        "of the role tool, not said by anybody",
        "thoughts, or context that ChatGPT adds",
        "thoughts, or context that ChatGPT adds",
    ]


def test_of_an_edited_conversation_only_the_last_branch_comes_in(tmp_path: Path) -> None:
    nodes = [
        gpt_node("q1", "root", "user", "first wording"),
        gpt_node("a1", "q1", "assistant", "first answer"),
        gpt_node("q2", "root", "user", "second wording", NOON + 60),
        gpt_node("a2", "q2", "assistant", "an answer", NOON + 61),
        gpt_node("a3", "q2", "assistant", "another answer", NOON + 90),
    ]
    path = written(tmp_path / "conversations.json", [gpt_conversation(*nodes, leaf="a2")])
    assert said(read("chatgpt", path)) == [("user", "second wording"), ("asst", "an answer")]
    assert left(read("chatgpt", path)) == [OTHER_BRANCH] * 3
    lost = written(tmp_path / "lost.json", [gpt_conversation(*nodes, leaf="gone")])
    assert said(read("chatgpt", lost)) == [("user", "second wording"), ("asst", "another answer")], "the newest"


def test_an_answer_of_claude_that_was_made_anew_replaces_the_earlier_one(tmp_path: Path) -> None:
    root = "00000000-0000-4000-8000-000000000000"
    messages = [
        claude_message("q", "human", "what stands there?", parent_message_uuid=root),
        claude_message("a", "assistant", "a heron", parent_message_uuid="q"),
        claude_message("b", "assistant", "a grey heron", parent_message_uuid="q"),
        claude_message("q2", "human", "thanks", parent_message_uuid="b"),
    ]
    reads = read("claude", written(tmp_path / "c.json", [claude_conversation(*messages)]))
    assert [content for _, content in said(reads)] == ["what stands there?", "a grey heron", "thanks"]
    assert left(reads) == [OTHER_BRANCH]
    earlier = read("claude", written(tmp_path / "c.json", [claude_conversation(*messages[:2])]))
    assert {turn.turn_id for turn in turns(earlier)} & {turn.turn_id for turn in turns(reads)} == {
        turns(reads)[0].turn_id
    }


def test_the_same_from_zip_directory_parts_and_the_file(tmp_path: Path) -> None:
    first = gpt_conversation(gpt_node("q", "root", "user", "hello"), gpt_node("a", "q", "assistant", "hi"))
    second = gpt_conversation(gpt_node("q9", "root", "user", "bye"), conversation_id="c-2", title="Other")
    both = [json.dumps([one]) for one in (first, second)]
    files = {"export/conversations-000.json": both[0], "export/conversations-001.json": both[1], "export/user.json": "{}",
             "__MACOSX/export/._conversations-000.json": "junk", "export/chat.html": "<html>"}  # fmt: skip
    for name, content in files.items():
        written(tmp_path / "dir" / name, content)
    ways = [
        written(tmp_path / "a.zip", zipped(files)),
        tmp_path / "dir" / "export",
        written(tmp_path / "ab12", b"\xef\xbb\xbf" + json.dumps([first, second]).encode()),
    ]
    found = [read("chatgpt", way) for way in ways]
    assert said(found[0]) == [("user", "hello"), ("asst", "hi"), ("user", "bye")]
    assert [turn.turn_id for turn in turns(found[0])] == [turn.turn_id for turn in turns(found[1])]
    assert [turn.turn_id for turn in turns(found[0])] == [turn.turn_id for turn in turns(found[2])]
    assert said(read("chatgpt", ways[0], only="other")) == [("user", "bye")]
    assert left(read("chatgpt", ways[0], only="other")) == [OTHER_CONVERSATION]
    done = [one.done for one in found[0]]
    assert done == sorted(done)
    assert done[-1] <= ways[0].stat().st_size


def test_claude_keeps_texts_and_what_was_read_of_attachments(tmp_path: Path) -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Go by train."},
              {"type": "tool_use", "name": "web", "input": {}}, {"type": "text", "text": "Two days suffice."}]  # fmt: skip
    pasted = {"file_name": "", "file_type": "txt", "extracted_content": "a long paste"}
    talk = claude_conversation(
        claude_message("m1", "human", "How do I get to Rome?", attachments=[{"file_name": "plan.pdf", "extracted_content": "day one"}]),
        claude_message("m2", "assistant", "old text field", "2026-02-09T14:00:00+01:00", content=blocks),
        claude_message("m3", "human", "", attachments=[pasted]),
        claude_message("m4", "assistant", "", content=[{"type": "tool_use"}]),
        claude_message("m5", "assistant", "before blocks existed", content=[]),
    )  # fmt: skip
    reads = read("claude", written(tmp_path / "conversations.json", [talk]))
    assert said(reads) == [
        ("user", "How do I get to Rome?\n\n[plan.pdf]\nday one"),
        ("asst", "Go by train.\n\nTwo days suffice."),
        ("user", "[attached text]\na long paste"),
        ("asst", "before blocks existed"),
    ]
    assert [turn.timestamp for turn in turns(reads)][:2] == [NOON, NOON + 3600]
    assert turns(reads)[0].extra["conversation"] == "Trip to Rome"
    assert turns(reads)[0].origin.attachment is not None
    assert left(reads) == ["without text (media, thoughts, a call of a tool)"]


def test_a_message_of_claude_without_an_id_is_told_by_time_side_and_words(tmp_path: Path) -> None:
    def ids(*messages: dict[str, Any], **more: Any) -> list[str]:
        for one in messages:
            one.pop("uuid", None)
        talk = claude_conversation(*messages, **more)
        talk.pop("uuid")
        found = turns(
            read("claude", written(tmp_path / "c.json", [talk, {**talk, "created_at": "2026-02-10T12:00:00Z"}]))
        )
        assert len({turn.task_id for turn in found}) == 2 * len(messages) == len(found)
        return [turn.task_id for turn in found][: len(messages)]

    dutch = [
        claude_message("", "human", "hallo"),
        claude_message("", "assistant", "hallo"),
        claude_message("", "human", "hallo"),
    ]
    assert ids(*dutch, claude_message("", "assistant", "tot ziens"), name="Anders")[:3] == ids(*dutch)


def test_what_is_wrong_in_one_conversation_costs_no_other(tmp_path: Path) -> None:
    good = claude_conversation(claude_message("m1", "human", "still here"), 7, {"sender": "human"})  # type: ignore[arg-type]
    reads = read("claude", written(tmp_path / "c.json", [3, {"uuid": "x"}, good, [[]], None]))
    assert said(reads) == [("user", "still here")]
    assert len(unread(reads)) == 5
    assert left(reads) == ["without text (media, thoughts, a call of a tool)"]
    assert all("still here" not in why for why in unread(reads))


def test_a_file_that_was_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    talk = gpt_conversation(gpt_node("q", "root", "user", "hello"))
    whole = json.dumps([talk, {**talk, "conversation_id": "c-2"}]).encode()
    reads = read("chatgpt", written(tmp_path / "c.json", whole[:-40]))
    assert said(reads) == [("user", "hello")]
    assert [why.partition(":")[0] for why in unread(reads)] == ["not JSON"]
