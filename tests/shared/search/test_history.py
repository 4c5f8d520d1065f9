"""Turns in the order of time, of release and day: the newest that fit, each once, whatever lies where; and only the chat's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.ranking.tokeniser import Tokeniser
from shared.search.history import HistoryQuery, TurnHistory, history
from shared.search.lexical import LexicalIndex, build
from shared.search.recall import OpenRelease
from shared.text.writing import folded
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import Turn, time_order

NOON = 1_778_673_600.0
UTC = ZoneInfo("UTC")
WORDS = ("boiler", "Boilers", "ёлка", "ёлки", "café", "cafe", "e-mail", "e", "mail", "4711")


class Release:
    """`OpenRelease` as far as it reads turns."""

    turns, turns_back = OpenRelease.turns, OpenRelease.turns_back

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


spoken = st.lists(st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), st.integers(0, 9)), max_size=12)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=spoken,
    split=st.integers(0, 12),
    both=st.integers(0, 4),
    limit=st.integers(1, 8),
    bounds=st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
    wanted=st.none() | st.lists(st.sampled_from(WORDS), min_size=1, max_size=2),
    phrase=st.booleans(),
    hidden=st.sets(st.integers(0, 11), max_size=3),
)
def test_it_is_what_a_walk_through_everything_finds(
    tmp_path_factory: pytest.TempPathFactory,
    said: list[tuple[list[str], int]],
    split: int,
    both: int,
    limit: int,
    bounds: tuple[int | None, int | None],
    wanted: list[str] | None,
    phrase: bool,
    hidden: set[int],
) -> None:
    turns = [turn(number, " ".join(words), at) for number, (words, at) in enumerate(said)]
    since, until = (None if at is None else NOON + at for at in bounds)
    text = None if wanted is None else f'"{" ".join(wanted)}"' if phrase else " ".join(wanted)
    gone = [f"t{number:03}:user" for number in hidden]
    found = ask(
        HistoryQuery("1", limit, since, until, text),
        turns[: split + both],
        turns[split:],
        tmp_path_factory.mktemp("r"),
        gone,
    )
    fitting = [
        one
        for one in sorted(turns, key=time_order)
        if one.turn_id not in gone
        and (since is None or one.timestamp >= since)
        and (until is None or one.timestamp < until)
        and (wanted is None or holds(one.content, wanted, phrase=phrase))
    ]
    assert [one.turn_id for one in found.turns] == [one.turn_id for one in fitting[-limit:]]
    assert [one.content for one in found.turns] == [one.content for one in fitting[-limit:]]
    assert found.more == (len(fitting) > limit)


def holds(text: str, wanted: list[str], *, phrase: bool) -> bool:
    """As it is written, also within a word; or, of letters and digits, by the tokens, one text at a time."""
    tokeniser = Tokeniser()
    pieces = [" ".join(wanted)] if phrase else wanted
    (said,) = tokeniser.in_order([text])
    phrases = tokeniser.in_order(pieces)
    tokeniser.close()
    line = " ".join(said)
    return all(
        folded(piece) in folded(text) or (piece.replace(" ", "").isalnum() and f" {' '.join(one)} " in f" {line} ")
        for piece, one in zip(pieces, phrases, strict=True)
    )


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


@pytest.mark.parametrize(
    "words", ['"', "*", '"" !', "boiler* OR *", "NEAR(a b)", "' OR 1=1 --", "\x00", "\ud800", "a" * 5_000, "ﷺ" * 600]
)
def test_words_are_words_whatever_they_look_like(tmp_path: Path, words: str) -> None:
    from shared.errors import InvalidInput

    try:
        found = ask(
            HistoryQuery("1", 9, contains=words), [turn(1, "the boiler", 1)], [turn(2, "a boiler", 2)], tmp_path
        )
    except InvalidInput:
        return
    assert not found.turns
