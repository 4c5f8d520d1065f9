"""Whether a message is given what was said before: the decision, what is chosen, and a hundred messages through a real release."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dispatcher.answering.commands.explanation import why_record, why_text
from dispatcher.memory.day.read_for_prompt import DayContext, PromptRequest
from dispatcher.memory.tombstones import Forgotten
from dispatcher.prompt.assemble import PromptSources
from dispatcher.prompt.budget import compose, hits_for
from dispatcher.prompt.context import Context
from shared.ranking.injection import Decision, Evidence, decide, may_be_foreign, read_message
from shared.release.manifest import current_release
from shared.search.choosing import FIRST, FIRST_OF_A_TIME, chosen, most_telling, only_asks, repeats
from shared.search.recall import OpenRelease
from shared.search.types import Hit, Query
from shared.text.dates.named_times import read_times
from shared.turns.chunk import Chunk
from shared.turns.records import dumps
from tests.support.world import REPOSITORY, World

DATA = REPOSITORY / "tests" / "data" / "injection"
BERLIN = ZoneInfo("Europe/Berlin")
FAMILY = "all-MiniLM-L6-v2"
#: A Thursday.
NOW = datetime(2026, 3, 12, 8, 30, tzinfo=BERLIN).timestamp()
DAY = 86_400.0


def evidence(text: str, **more: float | bool | None) -> Evidence:
    return replace(Evidence(read_message(text, NOW, BERLIN), 40), **more)  # type: ignore[arg-type]


def decided(text: str, family: str | None = FAMILY, **more: float | bool | None) -> Decision:
    return decide(evidence(text, **more), family, BERLIN)


def hit(text: str, score: float = 0.5, role: str = "user", at: float = NOW - DAY, name: str | None = None) -> Hit:
    task = f"{abs(hash((text, at)))}"
    turn = f"{task}:{role}"
    return Hit(Chunk(f"{turn}#1", "9", task, (turn,), role, name or role, text, at, at), score, None)


@pytest.mark.parametrize(
    "text",
    [
        "What did we talk about yesterday?",
        "Worüber haben wir gestern gesprochen?",
        "De quoi avons-nous parlé hier ?",
        "¿De qué hablamos ayer?",
        "О чём мы говорили вчера?",
    ],
)
def test_what_asks_for_a_time_alone_is_answered_by_that_time(text: str) -> None:
    assert read_message(text, NOW, BERLIN).asks_for_a_time
    there, nothing = decided(text, then=3), decided(text, then=0)
    assert there.inject
    assert there.spans
    assert not nothing.inject
    assert "there are no messages from then" in nothing.why
    assert "2026-03-" in nothing.why


# The decision.


@pytest.mark.parametrize(
    "text",
    [
        "Good morning! How are you?",
        "Vielen Dank, alles klar",
        "Merci, bonne nuit !",
        "Hola, ¿qué tal?",
        "Привет, как дела?",
        "ok",
        "",
    ],
)
def test_courtesy_is_no_evidence_however_near_it_is(text: str) -> None:
    assert not decided(text, cosine=0.9, coverage=1.0, rarity=1.0).inject


def test_one_rare_word_is_enough_for_a_question_about_us_though_nothing_is_near() -> None:
    assert decided("How much do I weigh?", coverage=1.0, rarity=0.7, found=1, cosine=0.31).inject
    assert decided("How much do I weigh?", cosine=0.33).inject, "nor does it need the word"
    assert not decided("How much do I weigh?", cosine=0.31).inject


def test_the_world_and_orders_need_more() -> None:
    little: dict[str, Any] = {"coverage": 0.3, "rarity": 0.7, "found": 1, "cosine": 0.3}
    assert decided("Where did I leave the car?", **little).inject
    assert not decided("Set a timer for ten minutes", **little).inject
    assert not decided("Who wrote Faust?", **{**little, "cosine": 0.2}).inject
    assert not decided("continue", coverage=1.0, rarity=0.9, found=1, cosine=0.2).inject, "one word is in any chat"
    assert decided("quillfish refuses logins again", coverage=0.6, rarity=1.0, found=2, cosine=0.45).inject


def test_where_similarity_tells_nothing_words_and_times_decide() -> None:
    assert decided("Wie heißt mein Hund?", cosine=0.2).inject
    assert decided("What is my dog called?", family="nomic-embed-text", cosine=0.7).inject
    assert decided("What is my dog called?", family=None).inject
    assert not decided("Wie hoch ist der Mont Blanc?", cosine=0.6).inject
    assert not decided("Erzähl mir einen Witz", cosine=0.6).inject
    assert decided("Was kostet die Krone?", coverage=1.0, rarity=1.0, found=2, cosine=0.1).inject


def test_a_question_in_another_language_than_the_talk_is_not_held_against_its_words() -> None:
    assert may_be_foreign(evidence("What is my dog called?"))
    assert not may_be_foreign(evidence("Hello there"))
    assert decided("What is my dog called?", cosine=0.1, foreign=0.8).inject
    assert decided("Which fault code did the boiler show?", cosine=0.1, foreign=0.8).inject
    assert not decided("What is the capital of Mongolia?", cosine=0.1, foreign=0.8, unknown_name=True).inject
    assert not decided("What is my dog called?", cosine=0.1, foreign=0.1).inject


# What is chosen.


def test_an_earlier_question_that_says_the_same_takes_no_place_and_its_answer_may() -> None:
    message = "How much do I weigh?"
    again, answer = hit("how much do I weigh", 0.9), hit("You weigh 71.4 kg.", 0.8, "asst")
    stated, other = hit("I weigh 71.4 kg now", 0.7), hit("Is that much?", 0.75)
    assert repeats(message, again)
    assert not repeats(message, answer)
    assert not repeats(message, stated)
    told = chosen(message, [again, answer, other, stated], Decision(True, "x"))
    assert told == [answer, stated, other], "statements outrank the person's questions"
    assert only_asks("Really? Why is that?")
    assert not only_asks("It rains. Why?")


def near(text: str, score: float, cosine: float, at: float = NOW - DAY) -> Hit:
    return replace(hit(text, score, at=at), scores={"cosine": cosine})


def test_a_line_is_taken_if_its_worth_exceeds_its_place_and_the_worthiest_first() -> None:
    """What is near and found by its words, but not what is there only since nothing better was left."""
    best, second = near("I left the car in the garage of the Linde", 1.0, 0.7), near("The car is a red Golf", 0.8, 0.5)
    rest = [near(f"turn {number} of the chat", 0.2, 0.1, NOW - number) for number in range(30)]
    assert chosen("x", [*rest, second, best], Decision(True, "x"), FAMILY) == [best, second]
    weak, long = near("In a garage", 0.55, 0.3), near("In a garage. " * 300, 0.55, 0.3)
    assert chosen("x", [best, weak], Decision(True, "x"), FAMILY) == [best, weak]
    assert chosen("x", [best, long], Decision(True, "x"), FAMILY) == [best], "too long for what it may help"
    assert chosen("x", [], Decision(True, "x"), FAMILY) == []
    by_words = [replace(one, scores={}, words=share) for one, share in ((best, 1.0), (second, 0.5))]
    assert chosen("x", by_words, Decision(True, "x"), FAMILY) == by_words, "without a comparison"
    alike = [near(f"turn {number} of the chat", 0.5, 0.8, NOW - number) for number in range(30)]
    assert len(chosen("x", alike, Decision(True, "x"), FAMILY)) == 30
    assert len(chosen("x", alike, Decision(True, "x"), "nomic-embed-text-v1.5")) < 10, "its cosines have no scale here"
    unlike = [near(f"turn {number} of the chat", 0.3, 0.4, NOW - number) for number in range(30)]
    assert len(chosen("x", unlike, Decision(True, "x"), FAMILY)) == FIRST, (
        "where nothing seems to answer, a few will do"
    )


def test_days_counted_from_the_day_of_asking_bound_what_is_chosen() -> None:
    then = [near(f"Spent {number} euros", 0.3, 0.3, NOW - number) for number in range(20)]
    then = [replace(one, scores=one.scores | {"said_then": 0.75}, rank=one.rank + 0.75) for one in then]
    named = replace(near("The plumber comes on Friday", 0.3, 0.2), scores={"cosine": 0.2, "dated": 0.01})
    before = near("I earned money once", 0.6, 0.3, NOW - 90 * DAY)
    clear = near("All that I may spend a week is 90 euros", 1.5, 0.8, NOW - 90 * DAY)
    told = chosen("x", [before, *then, named], Decision(True, "x"), FAMILY, from_now=True)
    assert before not in told
    assert len(told) == FIRST_OF_A_TIME
    assert before in chosen("x", [before, *then, named], Decision(True, "x"), FAMILY)
    assert chosen("x", [clear, *then], Decision(True, "x"), FAMILY, from_now=True)[0] is clear
    assert chosen("x", [before], Decision(True, "x"), FAMILY, from_now=True) == [before], "nothing was said then"


def test_a_question_about_days_to_come_is_told_what_names_them() -> None:
    assert read_message("What do I have to do this week?", NOW, BERLIN).asks_ahead
    assert not read_message("What did we talk about this week?", NOW, BERLIN).asks_ahead
    assert not read_message("Good morning! How are you today?", NOW, BERLIN).asks_ahead
    assert not read_message("What did I do last Friday?", NOW, BERLIN).asks_ahead
    assert read_message("Thanks, what's on tomorrow?", NOW, BERLIN).asks_only_ahead
    assert not read_message("Was trinke ich am Morgen?", NOW, BERLIN).asks_ahead
    assert not read_message("What did I buy today?", NOW, BERLIN).asks_only_ahead
    assert not read_message("We were in Rome last August, remember?", NOW, BERLIN).times.ahead
    assert decided("What's on tomorrow?", dated=1).inject


def test_early_in_a_week_a_question_means_the_week_before_as_well_and_a_date_does_not() -> None:
    monday = NOW - 3 * DAY
    for now, days in ((monday, 14), (NOW, 7)):
        ((first, end),) = read_message("How far did I run this week?", now, BERLIN).times.spans
        assert round((end - first) / DAY) == days
    ((first, end),) = read_times("this week", monday, BERLIN).spans
    assert round((end - first) / DAY) == 7
    assert not decided("What's on tomorrow?").inject


def test_of_a_day_statements_come_first_and_nothing_twice() -> None:
    at = NOW - DAY
    long = hit("def rename(path): " + "return path.with_suffix(old) " * 40, 0.9, "asst", at)
    stated, same = hit("The brake discs are worn, 380 euros", 0.5, at=at), hit("brake discs worn 380", 0.6, "asst", at)
    asked, before = hit("Should they be changed?", 0.7, at=at), hit("Something of another day", 0.9, at=at - 3 * DAY)
    spans = ((at - 3600, at + 3600),)
    told = chosen("What did we talk about?", [long, same, stated, asked, before], Decision(True, "x", spans))
    assert told[0] is stated
    assert before not in told
    assert most_telling([]) == []


# A hundred messages.


@pytest.fixture
def talks(world: World) -> Iterator[OpenRelease]:
    """One release of both talks: ours, and that of somebody who had not seen the program."""
    world.environment = {"CHAT_TIMEZONE": "Europe/Berlin"}
    for half in ("own", "unseen"):
        for line in (DATA / f"{half}_talk.jsonl").read_text(encoding="utf-8").splitlines():
            turn = json.loads(line)
            world.redis.set(f"hcli:memory:{turn['task_id']}:{turn['role']}", dumps(turn))
    world.night()
    path = current_release(world.memory_dir)
    assert path
    release = OpenRelease(world.settings(), path)
    release.open_vectors()
    yield release
    release.close()


def answered(world: World, release: OpenRelease, message: str, chat: str, now: float) -> Context:
    settings = world.settings()
    found = release.recall(Query(chat, message, hits_for(settings.memory_tokens), now=now))
    day: Any = SimpleNamespace(forgotten=Forgotten(settings.hmem_state_dir))
    return compose(
        PromptSources(PromptRequest(chat, message), settings, release, day, DayContext()).prompt_input(found)
    )


def test_of_a_hundred_messages_those_are_told_something_that_need_it(world: World, talks: OpenRelease) -> None:
    right, asked, wrong = Counter[str](), Counter[str](), list[str]()
    for half in ("own", "unseen"):
        for line in (DATA / f"{half}_messages.jsonl").read_text(encoding="utf-8").splitlines():
            said = json.loads(line)
            context = answered(world, talks, said["message"], said["chat_id"], said["now"])
            told = {turn for one in context.used for turn in (*one.chunk.turn_ids, *one.also)}
            good = not told.isdisjoint(said["evidence"]) if said["inject"] else not told
            assert (context.no_recall_reason is None) == bool(context.decision_reason and context.used), said["message"]
            for group in (half, said["kind"], said["language"]):
                asked[group] += 1
                right[group] += good
            if not good:
                wrong.append(f"{half} {said['language']} {said['kind']}: {said['message']} ({context.decision_reason})")
    print("\n".join([*wrong, ", ".join(f"{group} {right[group]}/{count}" for group, count in asked.items())]))
    assert asked["own"] == asked["unseen"] == 50
    assert len(wrong) <= 5, wrong
    yesterday = answered(world, talks, "What did we talk about yesterday?", "own-en", NOW)
    assert {datetime.fromtimestamp(one.chunk.started_at, BERLIN).day for one in yesterday.used} == {11}
    saturday = answered(world, talks, "What did we talk about last Saturday?", "own-en", NOW)
    assert (
        saturday.no_recall_reason == "it asks about the conversation on 2026-03-07, and there are no messages from then"
    )
    assert "Earlier messages: none, because there are no messages here on 2026-03-07." in why_text(why_record(saturday))
    assert "(time)" in why_text(why_record(yesterday))
