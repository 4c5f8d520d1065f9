"""Turns in the order of time, of release and day: the newest that fit, each once, whatever lies where; and only the chat's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shared.search.history import HistoryQuery, TurnHistory, history
from shared.search.lexical import LexicalIndex, build
from shared.search.recall import OpenRelease
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import Turn, time_order

NOON = 1_778_673_600.0
UTC = ZoneInfo("UTC")


class Release:
    """`OpenRelease` as far as it reads turns."""

    turns, turns_back, _reading, path = OpenRelease.turns, OpenRelease.turns_back, OpenRelease._reading, Path()

    def __init__(self, folder: Path, turns: Sequence[Turn]) -> None:
        by_chat = sorted(turns, key=lambda turn: turn.chat_id)
        build(folder, 1, ((chunk, indexed_text(chunk, UTC)) for turn in by_chat for chunk in chunks_of(turn)))
        self._lexical = LexicalIndex(folder)

    def _texts(self) -> LexicalIndex:
        return self._lexical

    def close(self) -> None:
        self._lexical.close()


def ask(
    asked: HistoryQuery, released: Sequence[Turn], day: Sequence[Turn], folder: Path, hidden: Sequence[str] = ()
) -> TurnHistory:
    """`history` over a release and a day that hold these turns."""
    release = Release(folder, released)
    since, until = asked.since, asked.until
    todays = [
        turn
        for turn in sorted(day, key=time_order, reverse=True)
        if (since is None or turn.timestamp >= since) and (until is None or turn.timestamp < until)
    ]
    try:
        return history(asked, release, todays, {turn.turn_id for turn in day}, hidden)  # type: ignore[arg-type]
    finally:
        release.close()


def turn(number: int, text: str, at: float, chat: str = "1") -> Turn:
    return Turn(f"t{number:03}", "user", chat, text, NOON + at)


def test_release_and_day_are_one_walk_back_and_each_turn_comes_once(tmp_path: Path) -> None:
    texts = ["a boiler", "ёлка", "e-mail to the café", "boilers 4711", "ёлки", "cafe"]
    turns = [turn(number, text, number) for number, text in enumerate(texts)]

    def found(name: str, limit: int = 9, hidden: Sequence[str] = (), **more: Any) -> tuple[str, bool]:
        told = ask(HistoryQuery("1", limit, **more), turns[:4], turns[2:], tmp_path / name, hidden)
        return "".join(one.task_id[-1] for one in told.turns), told.more

    assert found("all") == ("012345", False)
    assert found("newest", 2) == ("45", True)
    assert found("bounds", since=NOON + 1, until=NOON + 4) == ("123", False)
    assert found("hidden", hidden=["t003:user", "t005:user"]) == ("0124", False)
    for words, numbers in {
        "boiler": "03",
        "ёлки": "14",
        "cafe": "25",
        '"e-mail to"': "2",
        "ail": "2",
        "boiler 4711": "3",
    }.items():
        assert found(words.strip('"'), contains=words)[0] == numbers, words


def test_a_long_turn_is_one_and_its_words_may_stand_in_different_passages(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {number} of it. " + "word " * 120 for number in range(9))
    turns = [turn(1, f"violin {long} harp", 1), turn(2, f"violin {long}", 2), turn(3, "harp", 3)]
    assert len(chunks_of(turns[0])) > 3
    (found,) = ask(HistoryQuery("1", 9, contains="violin harp"), turns, [], tmp_path).turns
    assert (found.turn_id, found.content.split()) == ("t001:user", turns[0].content.split())


def test_what_another_chat_said_is_not_there(tmp_path: Path) -> None:
    chats = ["1", "11", "-1", "%", "*", "a' OR 1=1 --", "ключ"]
    turns = [turn(number, f"secret{number}", number, chat) for number, chat in enumerate(chats)]
    release = Release(tmp_path, turns)
    for number, chat in enumerate(chats):
        for contains in (None, f"secret{number}"):
            found = history(HistoryQuery(chat, 9, contains=contains), release)  # type: ignore[arg-type]
            assert [one.content for one in found.turns] == [f"secret{number}"]
        assert not history(HistoryQuery(chat, 9, contains=f"secret{(number + 1) % 7}"), release).turns  # type: ignore[arg-type]
    assert not history(HistoryQuery("2", 9), release).turns  # type: ignore[arg-type]
    release.close()


@pytest.mark.parametrize("words", ['"', "*", "boiler* OR *", "NEAR(a b)", "\x00", "\ud800", "ﷺ" * 600])
def test_words_are_words_whatever_they_look_like(tmp_path: Path, words: str) -> None:
    from shared.errors import InvalidInput

    try:
        found = ask(
            HistoryQuery("1", 9, contains=words), [turn(1, "the boiler", 1)], [turn(2, "a boiler", 2)], tmp_path
        )
    except InvalidInput:
        return
    assert not found.turns
