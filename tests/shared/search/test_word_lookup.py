"""Other forms of a question's words: how much is looked up for them is bounded, whatever the chat's vocabulary, the languages and the message."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from shared.ranking.question import query_terms, query_words
from shared.ranking.scoring import Posting
from shared.ranking.tokeniser import Tokeniser
from shared.search.merge import Merged
from shared.search.word_lookup import WordLookup
from shared.text import caches
from shared.text.words import word_forms
from shared.text.words.word_forms import SENTENCE_WORDS, ChatWords

SYLLABLES = "ba de di fe gu ha ke la mo ne ra so ta schu haus hof bahn tag werk zeit raum".split()
COMPOUNDING = ("da", "de", "fi", "hu", "nl", "no", "sv")


def vocabulary(size: int, languages: Sequence[str] = ("de",)) -> ChatWords:
    """Made-up words, and the sentence words of these languages, of the first ones more."""
    made = random.Random(size)
    words = ["".join(made.choices(SYLLABLES, k=made.randint(2, 5))) for _ in range(size)]
    shown = [word for at, one in enumerate(languages) for word in sorted(SENTENCE_WORDS[one])[: 30 - at]]
    found = ChatWords.of_texts([" ".join([*words, *shown])])
    assert found
    return found


class Chat:
    """A chat of these words, as a lookup reads it; none of its terms stands in an item."""

    release, day = object(), None

    def __init__(self, words: ChatWords) -> None:
        self._words = words

    def words(self, _: object) -> list[ChatWords]:
        return [self._words]

    def postings(self, _: object, asked: Any) -> dict[str, Posting]:
        return {}

    def containing(self, *_: object) -> list[str]:
        return []


class OfRelease:
    """The postings of a chat's release are all there are."""

    release, day = object(), None

    @staticmethod
    def postings(release: dict[str, Posting], _: object) -> dict[str, Posting]:
        return release


Ask = Callable[[Chat, str], WordLookup]


@pytest.fixture
def ask() -> Iterator[Ask]:
    with closing(Tokeniser()) as tokeniser:

        def terms(words: Sequence[str]) -> list[str]:
            return tokeniser.terms(" ".join(query_terms(words)))

        def lookup(chat: Any, question: str) -> WordLookup:
            merged: Any = OfRelease()
            found: Merged = merged
            return WordLookup(chat, found, query_words(question), terms, other_forms=False)

        yield lookup


def _noting(calls: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        calls.append(f"{name} {args[-2:] if name == 'stem_in' else args[-1]}")
        return function(*args)

    return called


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is stemmed, and what is looked up in a vocabulary."""
    calls: list[str] = []
    for where, name in ((word_forms, "stem_in"), (ChatWords, "beginning"), (ChatWords, "holding")):
        monkeypatch.setattr(where, name, _noting(calls, name, getattr(where, name)))
    caches.empty_all()
    return calls


def long_message(words: int) -> str:
    made = random.Random(words)
    return " ".join("".join(made.choices(SYLLABLES, k=5)) + made.choice(["", "en", "er", "s"]) for _ in range(words))


def test_the_work_for_a_long_message_is_bounded_and_done_once(ask: Ask, counted: list[str]) -> None:
    work = []
    for size in (2_000, 20_000):
        chat = Chat(vocabulary(size, COMPOUNDING))
        caches.empty_all()
        counted.clear()
        forms = ask(chat, long_message(600)).forms
        work.append(len(set(counted)))
        counted.clear()
        assert ask(chat, long_message(600)).forms == forms
        assert not counted, "neither a stem nor a lookup in the vocabulary"
    assert max(work) < 1_000, work
