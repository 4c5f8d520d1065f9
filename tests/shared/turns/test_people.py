"""The user's id of a turn, on its whole way; and two people of one name, told apart wherever a person or a model reads what they said."""

from __future__ import annotations

import json
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from dispatcher.memory.day.memory import DayMemory
from shared.turns.records import Task, Turn, user_id_of
from shared.turns.speakers import label, namesakes
from tests.support.world import World

GROUP = "-100"
ONE, OTHER = ("user", "Alex", "17"), ("user", "Alex", "42")


def marks_of(*speakers: tuple[str, str, str | None]) -> list[str]:
    found = namesakes(speakers)
    return [found.get(speaker, "") for speaker in speakers]


@pytest.mark.parametrize(("value", "known"), [
    (17, "17"), (-100, "-100"), ("17", "17"), ("demo-anna", "demo-anna"), (True, None), (1.5, None), ("", None), (" 17", None),
    ("a\nb", None), ("x" * 257, None), (None, None), ([17], None), ("\ud83d", None), (1 << 70, None),
])  # fmt: skip
def test_a_users_id_has_one_spelling(value: object, known: str | None) -> None:
    assert user_id_of(value) == known
    record = {"chat_id": "7", "role": "user", "content": "hello", "timestamp": 5.0, "task_id": "t1", "user_id": value}
    turn = Turn.parse(b"hcli:memory:t1:user", json.dumps(record).encode())
    assert turn.user_id == known
    assert json.loads(turn.to_json()) == record, "what came is what is written"
    assert Task.parse(json.dumps(record | {"message": "hello"}).encode()).user_id == known


def test_the_id_of_an_answer_is_nobodys() -> None:
    record = {"chat_id": "7", "role": "asst", "content": "hello", "timestamp": 5.0, "task_id": "t1", "user_id": "17"}
    turn = Turn.parse(b"hcli:memory:t1:asst", json.dumps(record).encode())
    assert turn.user_id is None
    assert json.loads(turn.to_json()) == record


def test_a_mark_is_shown_only_where_two_people_share_a_name_as_it_looks() -> None:
    assert marks_of(ONE, ("user", "Anna", "42"), ("asst", "assistant", None)) == ["", "", ""]
    one, other = marks_of(ONE, OTHER)
    assert one != other
    assert one[0] == other[0] == "#"
    assert marks_of(OTHER, ("user", "Alex", "3"), ONE)[::2] == [other, one], "the same whoever else comes"
    assert marks_of(ONE, ("user", "\u0410lex", "42")) == [one, other], "a Cyrillic A looks the same"
    assert marks_of(ONE, ("user", "Alex", None), OTHER)[1] == "", "whose it is is not known"
    assert marks_of(("user", "user", "17"), ("user", "user", "42")) == [one, other], "h-cli's bot knows no names"
    assert marks_of(("user", "user", "17"), ("user", "user", "cli")) == ["", ""], "the owner at the command line"
    assert label("user", "Alex", one) == f"Alex {one}"
    assert label("user", "user", one) == f"user {one}"


def test_nobody_takes_anothers_mark_by_his_name() -> None:
    (one, _) = marks_of(ONE, OTHER)
    for name in (f"Alex {one}", f"Alex\uff03{one[1:]}", f"Alex # {one[1:].upper()}"):
        assert label("user", name).startswith('user "')
    assert label("user", "Anna # Maria") == "Anna # Maria"


def group_of_two(world: World) -> None:
    world.say("t1", "the boiler of mine is a Vaillant", chat_id=GROUP, name="Alex", user_id="17")
    world.say(
        "t2", "the boiler of mine is a Junkers", chat_id=GROUP, name="Alex", user_id="42", timestamp=1_707_500_060.0
    )
    world.say("t3", "my boiler leaks", chat_id=GROUP, name="Anna", user_id="5", timestamp=1_707_500_120.0)


def test_two_people_of_one_name_are_told_apart_wherever_they_are_read(light: World, tmp_path: Path) -> None:
    one, other = marks_of(ONE, OTHER)
    group_of_two(light)
    light.night()
    with closing(DayMemory(light.settings(), nullcontext)) as day:
        day.upkeep.store_turns(
            [Turn("t4", "user", GROUP, "the boiler of mine is a Junkers", 1_707_600_000.0, "Alex", user_id="17")]
        )
    shown = light.command("hmem", "search", GROUP, "boiler").stdout
    assert f" Alex {one}: the boiler of mine is a Vaillant" in shown
    assert f" Alex {other}: the boiler of mine is a Junkers" in shown
    assert f" Alex {one}: the boiler of mine is a Junkers" in shown, "two people never say the same"
    assert " Anna: my boiler leaks" in shown
    assert f"- Alex {other}: the boiler" in light.command("hmem", "context", GROUP, "who has a Junkers boiler?").stdout
    out = tmp_path / "out"
    light.command("hmem", "export", GROUP, "--out", str(out))
    (document,), (lines,) = out.rglob("conversation.md"), out.rglob("turns.jsonl")
    assert f" Alex {one}**" in document.read_text()
    assert f" Alex {other}**" in document.read_text()
    assert {json.loads(line)["user_id"] for line in lines.read_text().splitlines()} == {"17", "42", "5"}
