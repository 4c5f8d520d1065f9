"""`/memory` in the chat: pages, an entry, its change by a reply, and its forgetting after a question."""

from __future__ import annotations

from tests.dispatcher.bots.telegram.conftest import one_talk
from tests.support.day.telegram_bot import GROUP, Stage, labels, last, press, say

OWNER, MEMBER = {"id": 7, "is_bot": False, "first_name": "Ada"}, {"id": 8, "is_bot": False, "first_name": "Bea"}


stage = one_talk(OWNERS="7")


def test_from_the_list_to_an_entry_and_back_to_the_list_without_it(stage: Stage, chat: int) -> None:
    say(stage, chat, "/memory add The garage code is 7731", "number 1")
    say(stage, chat, "/memory add The user likes tea", "number 2")
    listed = say(stage, chat, "/memory", "1. The garage code is 7731")
    assert sorted(labels(listed)) == ["1", "2"]
    entry = press(stage, chat, "1", "1. Fact: The garage code is 7731")
    assert entry.id == listed.id, "the entry replaces the list"
    assert "Noted on" in entry.text
    assert labels(entry) == ["Forget", "Edit", "‹ Back"]
    asked = press(stage, chat, "Forget", "Forget this")
    assert labels(asked) == ["Yes, forget it", "No"]
    assert "7731" in press(stage, chat, "No", "Noted on").text
    press(stage, chat, "Forget", "Forget this")
    left = press(stage, chat, "Yes, forget it", "Forgotten.")
    assert "7731" not in left.text
    assert "2. The user likes tea" in left.text
    assert labels(left) == ["2"]


def test_a_reply_with_the_new_text_replaces_an_entry(stage: Stage, chat: int) -> None:
    say(stage, chat, "/memory add The dentist is Dr Weiss", "number 1")
    say(stage, chat, "/memory", "1. The dentist")
    press(stage, chat, "1", "1. Fact")
    asked = press(stage, chat, "Edit", "Reply to this message")
    said = "Saved as number 2: The dentist is Dr Schwarz. This replaces number 1."
    changed = say(stage, chat, "The dentist is Dr Schwarz", said, to=asked.id)
    assert labels(changed) == ["Show all"]
    listed = press(stage, chat, "Show all", "2. The dentist is Dr Schwarz")
    assert "replaced" in listed.text.partition("Superseded:")[2]
    assert "Replaced" in press(stage, chat, "1", "1. Fact").text
    assert labels(last(stage, chat)) == ["Forget", "‹ Back"], "what was replaced is not edited"
    say(stage, chat, "what does this mean?", "All right.", to=changed.id)  # any other reply is a message for Claude


def test_in_a_group_only_an_owner_edits_and_forgets_what_others_said(stage: Stage) -> None:
    say(stage, GROUP, "/memory add The key is under the mat", "number 1", user=OWNER)
    for command in ("/memory edit 1 The key is gone", "/memory forget 1 ask", "/memory forget 1 yes"):
        say(stage, GROUP, command, "only an owner may", user=MEMBER)
    assert labels(say(stage, GROUP, "/memory show 1", "1. Fact", user=MEMBER)) == ["‹ Back"]
    asked = say(stage, GROUP, "/memory edit 1", "Reply to this message", user=OWNER)
    say(stage, GROUP, "The key is gone", "All right.", user=MEMBER, to=asked.id)  # only a message: he was not asked
    assert "1. Ada: The key is under the mat" in say(stage, GROUP, "/memory", "Facts:", user=OWNER).text


def test_in_a_group_each_edits_and_forgets_what_they_said(stage: Stage) -> None:
    number = say(stage, GROUP, "/memory add My bike is red", "Saved as number", user=MEMBER).text.split()[3].strip(":")
    entry = say(stage, GROUP, f"/memory show {number}", "Said by Bea.", user=MEMBER)
    assert labels(entry) == ["Forget", "Edit", "‹ Back"]
    changed = say(stage, GROUP, f"/memory edit {number} My bike is blue", "This replaces", user=MEMBER).text
    newer = changed.split()[3].strip(":")
    assert f"{newer}. Bea: My bike is blue" in say(stage, GROUP, "/memory", "Facts:", user=MEMBER).text
    say(stage, GROUP, f"/memory edit {newer} My bike is green", "This replaces", user=OWNER)
    listed = say(stage, GROUP, "/memory", "My bike is green", user=OWNER).text
    assert "Bea: My bike is green" in listed, "an owner changes what Bea said, and it stays hers"
    last_number = next(line.split(".")[0] for line in listed.splitlines() if line.endswith("My bike is green"))
    say(stage, GROUP, f"/memory forget {last_number}", "Forgotten.", user=MEMBER)
