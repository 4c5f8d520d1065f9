"""What is recalled, line by line: newest first, code as it was said, one passage of a long answer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.prompt.budget import PromptInput, compose
from dispatcher.prompt.context import Context
from dispatcher.prompt.recalled_part import EXCERPT
from shared.ranking.injection import Decision
from shared.search.choosing import chosen
from shared.search.recall import OpenRelease
from shared.search.types import Hit, Recalled
from tests.support.day.prompts import NOW, UTC, assembled, hit
from tests.support.world import World

DAY = 86_400.0
FILLING = "A sentence on something else stands here. " * 9


def composed_for(message: str, hits: list[Hit], budget: int = 1500, summary: str = "") -> Context:
    return compose(PromptInput(Recalled(hits), summary, budget=budget, zone=UTC, release_run=7, message=message))


def lines(context: Context) -> list[str]:
    return next(part.body for part in context.parts if part.name == "recalled").split("\n")


def answer(to: Hit, text: str, passage: int = 1, passages: int = 1, rank: float = 0.5) -> Hit:
    """The assistant's answer to a hit."""
    asked = to.chunk
    turn = f"{asked.exchange}:asst"
    chunk = replace(asked, chunk_id=f"{turn}#{passage}", turn_ids=(turn,), role="asst", speaker="assistant", text=text)
    return Hit(replace(chunk, passage=passage, passages=passages), rank, None)


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


# Code.

SCRIPT = "def freeze(days):\n    # too cold\n    if days > 2:\n\n        return <Alarm>"


def test_code_stands_as_it_was_said_and_no_line_of_it_begins_as_one_of_ours() -> None:
    asked = hit("Write me the script.", NOW, speaker="user")
    told = answer(asked, f"Here  it\nis:\n```python\n{SCRIPT}\n```\nRun it\nat night.")
    context = composed_for("", [asked, told])
    assert lines(context)[2:] == [
        "- assistant: Here it is:", "| ```python", "| def freeze(days):", "|     # too cold", "|     if days > 2:", "|",
        "|         return ‹Alarm>", "| ```", "  Run it at night.",
    ]  # fmt: skip
    (item,) = (one for one in context.lines_json() if "freeze" in one["text"])
    assert item["text"].startswith("- assistant: Here it is:\n| ```python\n")
    assert (item["part"], item["date"]) == ("recalled", "2024-02-09")
    open_end = answer(asked, f"```\n{SCRIPT}")
    assert lines(composed_for("", [open_end]))[1:3] == ["- assistant: ", "| ```"], "the rest is in another passage"


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


def test_further_passages_of_a_turn_come_after_all_others() -> None:
    asked = hit("why?", NOW, speaker="user")
    one, two, three = (answer(asked, f"passage {n} " * 30, n, 3, 2 - n / 10) for n in (1, 2, 3))
    other = hit("something else of the boiler", NOW + 60, "user", score=1.5)
    told = chosen("the boiler", [one, two, three, other], Decision(True, "x"))
    assert told == [one, other, two, three]


# Through the night.


def test_a_real_release_gives_the_newer_date_first_code_as_it_was_said_and_one_passage_of_a_long_answer(
    light: World,
) -> None:
    light.say("t1", "The deadline of the first sprint is 1 April.", timestamp=NOW, name="Ann")
    light.say("t2", "The deadline of the first sprint moved to 5 April.", timestamp=NOW + 3 * DAY, name="Ann")
    light.say("t3", f"The script:\n```\n{SCRIPT}\n```", role="asst", timestamp=NOW + 4 * DAY)
    light.say("c1", "My cistern in the attic froze twice this winter.", timestamp=NOW, chat_id="77")
    long = f"{FILLING * 3}The cistern in the attic froze because the lagging is thin. {FILLING * 3}"
    light.say("c1", long, role="asst", timestamp=NOW + 5, chat_id="77")
    for number in range(60):
        words = " ".join(f"w{number}x{place}" for place in range(40))
        light.say(f"n{number}", f"Note {number} on the attic: {words}", timestamp=NOW + DAY + number, chat_id="77")
    light.night()
    plain = light.settings(memory_summary=False)
    with closing(OpenRelease(light.settings(), (light.memory_dir / "current").resolve())) as release:
        context = assembled(PromptRequest("9912", "When is the deadline of the first sprint?"), plain, release)
        code = assembled(PromptRequest("9912", "Give me the script to freeze again"), plain, release)
        short = light.settings(memory_tokens=500, memory_summary=False)
        cistern = assembled(PromptRequest("77", "Why did my cistern freeze?"), short, release)
    assert [line for line in lines(context) if "sprint" in line or line[0] != "-"][:4] == [
        "12 February 2024", "- Ann: The deadline of the first sprint moved to 5 April.",
        "9 February 2024", "- Ann: The deadline of the first sprint is 1 April.",
    ]  # fmt: skip
    assert "|     if days > 2:\n|\n|         return" in code.text
    asked, told = (line for line in lines(cistern) if "cistern" in line)
    assert asked == "- user: My cistern in the attic froze twice this winter."
    assert "The cistern in the attic froze because the lagging is thin." in told
    assert len(told) < EXCERPT + 40
