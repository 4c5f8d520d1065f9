"""Pictures and recordings through the real bot, dispatcher and CLI: what reaches the model, what is shown, and what is remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from dispatcher.features.media.pictures import shown_in
from dispatcher.memory.typed.tags import parse
from tests.support.machine import wait_for
from tests.support.processes.talk import CHAT, OGG, Talk, png, sha, talking


@pytest.fixture(scope="module")
def _talk(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    with talking(redis_url, tmp_path_factory.mktemp("media")) as talk:
        yield talk


@pytest.fixture
def talk(_talk: Talk) -> Talk:
    return _talk.fresh()


def test_a_picture_reaches_the_model_byte_for_byte_and_is_remembered_by_what_it_shows(talk: Talk) -> None:
    talk.answer = "A nice bike.\n[PICTURE CODE: 1 | A red bicycle [leaning] on a wall]"
    picture = png(1)
    assert talk.send(caption="what do you think?", **talk.stage.api.files.photo(picture)) == "A nice bike."
    assert talk.pictures() == [sha(picture)]
    words = talk.words()
    assert "Attached as image 1, ahead of these lines: picture." in words
    assert "to the end of this message:\n\nwhat do you think?\n" in words, "the CLI adds a line of its own"
    (turn,) = talk.turns()
    assert turn["content"] == "what do you think?"
    assert turn["media"][0]["text"] == "A red bicycle [leaning] on a wall"
    wait_for(lambda: "bicycle" in talk.search("bicycle"), "the day store")
    assert "[picture: A red bicycle (leaning) on a wall] what do you think?" in talk.search("bicycle")


def test_an_album_is_seen_together_in_its_order(talk: Talk) -> None:
    pictures = [png(number) for number in range(10)]
    files = [talk.stage.api.files.photo(one) | {"media_group_id": "a"} for one in pictures]
    files[0]["caption"] = "our holiday"
    talk.answer = "Lovely.\n" + "\n".join(f"[PICTURE CODE: {number + 1} | view {number}]" for number in range(10))
    before = len(talk.stage.api.texts(CHAT))
    talk.stage.api.album(CHAT, files)
    assert talk.answered(before) == "Lovely."
    assert talk.pictures() == [sha(one) for one in pictures]
    assert "This message has 10 pictures" in json.dumps(talk.model.requests[-1]["system"])
    assert [one["text"] for one in talk.turns()[0]["media"]] == [f"view {number}" for number in range(10)]
    talk.send("which was the best?")
    assert "This message has" not in json.dumps(talk.model.requests[-1]["system"]), "no rule where there is no picture"


def test_what_is_no_picture_is_refused_and_not_sent(talk: Talk) -> None:
    for content in (b"%PDF-1.7 not a picture", png(1)[:-20], b"\0", b"\xff\xd8\xff" + b"0" * 50):
        answer = talk.send(caption="what is this?", **talk.stage.api.files.photo(content))
        assert "I cannot open this picture" in answer, content
    assert not talk.model.requests
    assert [(turn["content"], turn["media"][0]["kind"]) for turn in talk.turns()] == [("what is this?", "photo")] * 4


@pytest.mark.parametrize("kind", ["voice", "video_note"])
def test_what_was_heard_is_shown_answered_and_remembered(talk: Talk, kind: str) -> None:
    answer = talk.send(**getattr(talk.stage.api.files, kind)(OGG))
    assert answer == '🎙 "The boiler shows F28."\n\nAll right.'
    assert [one.content for one in talk.speech.received] == [OGG]
    assert talk.words().endswith("The boiler shows F28.")
    assert "transcribed by a program, which may have misheard" in talk.words()
    (turn,) = talk.turns()
    assert (turn["content"], turn["media"][0]["text"]) == ("The boiler shows F28.", "The boiler shows F28.")
    wait_for(lambda: "] The boiler shows F28." in talk.search("boiler"), "the day store")
    assert "🎙" not in str(talk.stage.redis.mget(talk.stage.redis.keys("hcli:memory:*:asst")))


def test_a_transcript_is_shown_as_it_is_and_heard_in_the_language_that_the_chat_has_chosen(talk: Talk) -> None:
    talk.spoken = 'He said **stop** and "`go`"\n# now <b>'
    who = {"id": 7, "is_bot": False, "first_name": "Ada", "language_code": "fr"}
    assert talk.send(user=who, **talk.stage.api.files.audio(OGG)).startswith(
        '🎙 "He said **stop** and "`go`" # now <b>"'
    )
    assert [one["type"] for one in talk.stage.api.messages(CHAT)[-1].entities if one["type"] != "blockquote"] == []
    talk.send("/language de")
    talk.send(user=who, **talk.stage.api.files.voice(OGG))
    assert [one.fields.get("language") for one in talk.speech.received] == [None, "de"]


def test_a_server_that_is_down_is_told_and_the_message_is_stored(talk: Talk) -> None:
    talk.speech.statuses = [500, 500]
    assert "cannot be reached at the moment" in talk.send(**talk.stage.api.files.voice(OGG))
    (turn,) = talk.turns()
    assert (turn["content"], turn["media"][0]["sha256"]) == ("", sha(OGG))
    assert not talk.model.requests
    assert talk.send(**talk.stage.api.files.voice(OGG)).endswith("All right."), "sent again"


@pytest.mark.parametrize(("answer", "shown"), [
    ("[PICTURE c0de: 1 | a red bicycle]", {1: "a red bicycle"}),
    ("[PICTURE c0de: a red bicycle]", {1: "a red bicycle"}),
    ("[PICTURE c0de: 2 | a | b]\n[PICTURE c0de: 1|c]\n[PICTURE c0de: 2 | d]", {2: "a | b", 1: "c"}),
    ("[PICTURE c0de: 1 | ]", {}),
])  # fmt: skip
def test_what_a_picture_shows_is_read_by_its_number(answer: str, shown: dict[int, str]) -> None:
    assert shown_in(parse(f"Nice.\n{answer}", "c0de").tags) == shown
