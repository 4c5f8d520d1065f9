"""What is recalled, line by line: newest first, changed values marked, one passage of a long answer, a statement ahead of the answer to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.prompt.assemble import PromptRequest
from dispatcher.prompt.budget import SHARES, compose
from dispatcher.prompt.changes import changes, values
from dispatcher.prompt.context import Context
from dispatcher.prompt.prompt_input import PromptInput
from dispatcher.prompt.recalled_part import EXCERPT, LONG_PASSAGE, excerpt, fill
from shared.ranking.injection import Decision, Evidence, read_message
from shared.search.choosing import chosen
from shared.search.recall import OpenRelease
from shared.search.types import Hit, Recalled
from tests.support.day.prompts import NOW, PROPERTY, SUMMARY, UTC, assembled, hit
from tests.support.world import World

DAY = 86_400.0
DEADLINE = "When is the deadline of the first sprint?"
FIRST, MOVED = "The deadline of the first sprint is 1 April.", "The deadline of the first sprint moved to 5 April."
FILLING = "A sentence on something else stands here. " * 9


def composed_for(message: str, hits: list[Hit], budget: int = 1500, summary: str = "") -> Context:
    return compose(PromptInput(Recalled(hits), summary, budget=budget, zone=UTC, run=7, message=message))


def lines(context: Context) -> list[str]:
    return next(part.body for part in context.parts if part.name == "recalled").split("\n")


def answer(to: Hit, text: str, passage: int = 1, passages: int = 1, rank: float = 0.5) -> Hit:
    """The assistant's answer to a hit."""
    asked = to.chunk
    turn = f"{asked.exchange}:asst"
    chunk = replace(asked, chunk_id=f"{turn}#{passage}", turn_ids=(turn,), role="asst", speaker="assistant", text=text)
    return Hit(replace(chunk, passage=passage, passages=passages), rank, rank, None, None)


# The order.


def test_days_and_lines_stand_newest_first_and_an_answer_after_its_question() -> None:
    old, asked, new = (hit("said first", NOW - DAY), hit("what now?", NOW, speaker="user"), hit("said last", NOW + 60, speaker="user"))  # fmt: skip
    told = answer(asked, "That is a longer answer, understandable without the question before it.")
    assert lines(composed_for("", [old, new, told, asked])) == [
        "9 February 2024",
        "- user: said last",
        "- user: what now?",
        "- assistant: That is a longer answer, understandable without the question before it.",
        "8 February 2024",
        "- anna: said first",
    ]


# Changed values.


def test_the_newer_of_two_values_is_marked_and_both_have_their_dates() -> None:
    older, newer = hit(FIRST, NOW), hit(MOVED, NOW + 3 * DAY)
    assert lines(composed_for(DEADLINE, [older, newer])) == [
        "12 February 2024",
        f"- anna (newer): {MOVED}",
        "9 February 2024",
        f"- anna (older; newer: 12 February 2024): {FIRST}",
    ]
    newest = hit("The deadline of the first sprint is now 9 April.", NOW + 5 * DAY)
    told = lines(composed_for(DEADLINE, [older, newest, newer]))
    assert [line for line in told if line.startswith("- ")] == [
        f"- anna (newer): {newest.chunk.text}",
        f"- anna (older; newer: 14 February 2024): {MOVED}",
        f"- anna (older; newer: 14 February 2024): {FIRST}",
    ]


@pytest.mark.parametrize(("older", "newer"), [
    ("My Zotero library has 45 sources.", "My Zotero library now has 52 sources, tagged by theme."),
    ("My budget for sneakers is $600 a year.", "I'm looking at sneakers with my increased budget of $650."),
    ("I visit Foot Locker next Saturday at 3 PM.", "I rescheduled my Foot Locker visit next Saturday to 4:30 PM."),
    ("The probate fee is 15%, the lawyer said.", "The probate fee was lowered to 12%, the lawyer wrote."),
    ("My dentist appointment is at 10:30.", "My dentist appointment moved to 11:15."),
    ("My dentist appointment is at 3 pm.", "My dentist appointment moved to 16:00."),
    ("My dentist appointment is on Sept 3.", "My dentist appointment moved to 5 September."),
])  # fmt: skip
def test_values_of_many_kinds_are_compared(older: str, newer: str) -> None:
    said = [(hit(text, at).chunk, text) for text, at in ((older, NOW), (newer, NOW + 60))]
    (found,) = changes(older, said)
    assert (found.older, found.newer) == (0, 1)


@pytest.mark.parametrize(("older", "newer", "why"), [
    (hit(FIRST, NOW, "bob"), hit(MOVED, NOW + 60), "another person"),
    (hit(FIRST, NOW), hit("The deadline of the first sprint is 5 April.", NOW + 60), "it does not say that it is a change"),
    (hit(MOVED, NOW), hit(FIRST, NOW + 60), "the change is the older one"),
    (hit(FIRST, NOW), hit("The deadline of the first sprint is now 1 April.", NOW + 60), "the same value"),
    (hit(FIRST, NOW), hit("For the first sprint I now have 4 people.", NOW + 60), "a value of another kind"),
    (hit(FIRST, NOW), hit("The dentist is now on 5 April.", NOW + 60), "another topic"),
])  # fmt: skip
def test_what_is_no_certain_change_is_not_marked(older: Hit, newer: Hit, why: str) -> None:
    told = lines(composed_for(DEADLINE, [older, newer]))
    assert [line for line in told if "newer" in line] == [], why
    assert told[1].endswith(newer.chunk.text), "and stands first all the same"


@pytest.mark.parametrize(("message", "older", "newer"), [
    ("When is my dentist appointment?", "My dentist appointment is at 10:30.", "My dentist appointment moved to room 4."),
    ("When is my dentist appointment?", "My dentist appointment is at 3:00 pm.", "My dentist appointment is now at 15:00."),
    ("When is my dentist appointment?", "My dentist appointment is at 4:30 pm.", "My dentist appointment is now at 4:30."),
    ("What is the flight to Berlin?", "My flight to Berlin is LH 441.", "My flight to Berlin now leaves from gate 12."),
    ("When is the team meeting?", "We decided 3 things at the team meeting.", "The team meeting moved to 5 April."),
    ("How are my spring marathons?", "My spring plan has 2 marathons.", "My spring marathons plan moved to 5 April."),
    ("When is the flea market trip?", "The flea market 12 trip is free.", "The flea market trip moved to 5 April."),
    ("How many books for the book club?", "I read 3 books for the book club in May.",
     "I recently read 7 books for the book club in June."),
    ("How many books for the book club?", "I read 3 books for the book club.", "I reached 7 books for the book club."),
])  # fmt: skip
def test_numbers_of_different_things_are_no_change(message: str, older: str, newer: str) -> None:
    assert changes(message, [(hit(text, at).chunk, text) for text, at in ((older, NOW), (newer, NOW + 60))]) == []


APPOINTMENT = "When is my dentist appointment?"
ON_3, MOVED_TO_5 = "My dentist appointment is on 3 May.", "My dentist appointment moved to 5 May."


def filled(room: int, *hits: Hit, elsewhere: Sequence[Hit] = ()) -> list[str]:
    return [line.text for line in fill(hits, room, UTC, APPOINTMENT, elsewhere)[0]]


def test_marks_give_way_to_a_line_and_an_older_line_to_the_newer() -> None:
    older, newer = hit(ON_3, NOW), hit(MOVED_TO_5, NOW + DAY)
    marked = [f"- anna (newer): {MOVED_TO_5}", f"- anna (older; newer: 10 February 2024): {ON_3}"]
    full, without = (sum(map(len, lines)) + 35 for lines in (marked, [f"- anna: {MOVED_TO_5}", f"- anna: {ON_3}"]))
    assert filled(full, older, newer) == marked, "their own length is all that marks need"
    for room in (full - 1, without):
        assert filled(room, older, newer) == [f"- anna: {MOVED_TO_5}", f"- anna: {ON_3}"]
    assert filled(without - 1, older, newer) == [f"- anna: {MOVED_TO_5}"]
    long = hit(f"{MOVED_TO_5} {FILLING}", NOW + DAY)
    assert filled(without, older, long) == [], "an outdated line is worse than none"
    latest = hit("My dentist appointment is now on 7 May.", NOW + 2 * DAY)
    for room in range(40, 300):
        told = filled(room, older, newer, latest)
        assert [line.split(": ")[-1] for line in told] == [latest.chunk.text, MOVED_TO_5, ON_3][: len(told)]


def test_lines_that_the_prompt_has_already_need_no_room_for_marks() -> None:
    older, newer, other = hit(ON_3, NOW), hit(MOVED_TO_5, NOW + DAY), hit("x" * 50, NOW)
    line = "- anna: " + "x" * 50
    assert filled(len(line) + 17, other, elsewhere=[older, newer]) == [line]
    assert filled(300, older, elsewhere=[newer]) == [f"- anna (older; newer: 10 February 2024): {ON_3}"]
    assert filled(300, newer, elsewhere=[older]) == [f"- anna (newer): {MOVED_TO_5}"]


def test_a_mark_never_breaks_the_budget_and_never_stands_without_the_other_line() -> None:
    hits = [hit(FIRST, NOW), hit("Another line of the first sprint.", NOW + 60), hit(MOVED, NOW + 3 * DAY)]
    marked = 0
    for budget in range(80, 300):
        context = composed_for(DEADLINE, hits, budget)
        assert len(context.text) <= 4 * budget
        assert context.text.count(" (newer)") == context.text.count(" (older; newer: ")
        marked += " (newer)" in context.text
    assert marked > 50


def test_the_text_of_a_value_is_read_by_its_kind() -> None:
    assert values("On April 5th, 2024, I paid $1,200 for 8 cards at 4:30 PM, 12% off, in 3 hours") == {
        "date": {"apr 5"}, "money": {"1200"}, "count:cards at": {"8"}, "clock": {"4:30p"}, "percent": {"12%"}, "hour": {"3h"},
    }  # fmt: skip
    assert values("10:30 or 15:00, 2 marathons, market 12, decided 3 things, on Sept. 4") == {
        "clock": {"10:30a", "10:30p", "3p"}, "count:marathons": {"2"}, "count:": {"12"}, "count:things": {"3"}, "date": {"sep 4"},
    }  # fmt: skip


# Long turns.


def test_a_long_passage_is_cut_to_the_sentences_that_have_the_words() -> None:
    text = f"{FILLING}The cistern in the attic froze twice. {FILLING}"
    asked = hit("why?", NOW)
    context = composed_for("Did the cistern freeze?", [answer(asked, text, 2, 3)])
    (_, line) = lines(context)
    assert "The cistern in the attic froze twice." in line
    assert line.startswith("- assistant: … ")
    assert line.endswith(" …")
    assert len(line) < EXCERPT + 40
    assert context.used[0].chunk.text == text, "reported whole"
    whole = lines(composed_for("Which parrots are blue?", [answer(asked, text, 2, 3)]))[1]
    assert text.strip() in whole, "no word of the message is in it: what is similar is not known"
    assert text.strip() in lines(composed_for("Did the cistern freeze?", [answer(asked, text)]))[1], (
        "not of a long turn"
    )


@PROPERTY
@given(st.text("ab .\n!?", max_size=1500), st.text("ab ", max_size=20))
def test_an_excerpt_is_a_piece_of_the_text(text: str, message: str) -> None:
    shown = excerpt(text, message)
    assert shown in text
    assert shown == text or (len(text) > LONG_PASSAGE and 0 < len(shown) <= EXCERPT)


def found(message: str) -> Evidence:
    return Evidence(read_message(message, NOW, UTC), 3)


def test_further_passages_of_a_turn_come_after_all_others() -> None:
    asked = hit("why?", NOW, speaker="user")
    one, two, three = (answer(asked, f"passage {n} " * 30, n, 3, 1 - n / 10) for n in (1, 2, 3))
    other = hit("something else of the boiler", NOW + 60, "user", score=0.3)
    told = chosen("the boiler", [one, two, three, other], found("the boiler"), Decision(True, "x"))
    assert told == [one, other, two, three]


def test_what_a_person_said_comes_ahead_of_the_answer_to_it() -> None:
    stated = hit("My boiler shows F28, and it is ten years old.", NOW, "user", score=0.1)
    told = answer(stated, "The boiler shows F28 where the gas valve is stuck. " * 12, rank=0.9)
    others = [hit(f"the boiler again, {n}", NOW + n, "user", score=0.8) for n in range(1, 60)]
    message = "What is wrong with the boiler?"
    many = replace(found(message), items=400, typical=0.3)
    order = chosen(message, [told, *others, stated], many, Decision(True, "x"))
    assert order[:2] == [stated, told], "even if its own score is that of any turn"
    asked = replace(stated, chunk=replace(stated.chunk, text="What is F28?"))
    assert asked not in chosen(message, [told, *others, asked], many, Decision(True, "x")), (
        "a bare question says nothing"
    )


# The summary makes room.


def test_a_small_budget_has_no_summary_where_recalled_lines_need_its_place() -> None:
    hits = [hit(f"the boiler was looked at, for the {n}th time", NOW + n) for n in range(150)]

    def names(count: int, budget: int) -> list[str]:
        return [part.name for part in composed_for("", hits[:count], budget, SUMMARY).parts]

    assert names(150, 1000) == ["recalled"]
    assert names(5, 1000) == ["summary", "recalled"], "there is room for both"
    assert names(150, 1500) == ["summary", "recalled"]
    sizes = [len(composed_for("", hits, budget, SUMMARY).parts[0].text) for budget in (1200, 1350, 1500)]
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 6000 * SHARES["summary"]


# Through the night.


@contextmanager
def released(world: World) -> Iterator[OpenRelease]:
    world.night()
    with closing(OpenRelease(world.settings(), (world.memory_dir / "current").resolve())) as release:
        yield release


def test_a_real_release_gives_the_newer_date_first_and_marked(light: World) -> None:
    light.say("t1", FIRST, timestamp=NOW, name="Ann")
    light.say("t2", MOVED, timestamp=NOW + 3 * DAY, name="Ann")
    light.say("t3", "The parrot is called Alba.", timestamp=NOW + 4 * DAY, name="Ann")
    with released(light) as release:
        plain = light.settings(memory_summary=False)
        context = assembled(PromptRequest("9912", DEADLINE), plain, release)
        beside = assembled(PromptRequest("9912", DEADLINE), light.settings(), release)
    assert context.text.index(f"- Ann (newer): {MOVED}") < context.text.index("9 February 2024\n- Ann (older;")
    assert "where records disagree, the newer holds" in context.text
    assert f"- 2024-02-12 Ann: {MOVED}" in beside.text.partition("Earlier turns")[0], "the summary has the newer one"
    assert lines(beside) == ["9 February 2024", f"- Ann (older; newer: 12 February 2024): {FIRST}"]


def test_a_real_release_gives_one_passage_and_the_statement_ahead_of_the_answer(light: World) -> None:
    light.say("t1", "My cistern in the attic froze twice this winter.", timestamp=NOW)
    long = f"{FILLING * 3}The cistern in the attic froze because the lagging is thin. {FILLING * 3}"
    light.say("t1", long, role="asst", timestamp=NOW + 5)
    for number in range(60):
        words = " ".join(f"w{number}x{place}" for place in range(40))
        light.say(f"n{number}", f"Note {number} on the attic: {words}", timestamp=NOW + DAY + number)
    with released(light) as release:
        context = assembled(
            PromptRequest("9912", "Why did my cistern freeze?"), light.settings(memory_tokens=500), release
        )
    told = [line for line in lines(context) if "cistern" in line]
    assert told[0] == "- user: My cistern in the attic froze twice this winter."
    assert "The cistern in the attic froze because the lagging is thin." in told[1]
    assert len(told) == 2
    assert len(told[1]) < EXCERPT + 40
    assert "lagging" in next(one.chunk.text for one in context.used if one.chunk.role == "asst"), (
        "ahead of its other passages"
    )
