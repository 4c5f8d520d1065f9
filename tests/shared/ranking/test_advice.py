"""Which questions ask for advice."""

from __future__ import annotations

import pytest

from shared.ranking.question import asks_for_advice, query_words


@pytest.mark.parametrize(
    "message",
    [
        "I'm looking for new shoes. What would you suggest?",
        "Can you help me plan my week?",
        "How should I structure the interview?",
        "Was soll ich heute Abend kochen?",
        "Quel livre me conseilles-tu ?",
        "¿Qué me recomiendas para leer?",
        "Che cosa mi consigli?",
        "Que livros me sugeres?",
        "Посоветуй мне книгу",
    ],
)
def test_a_question_for_advice_is_known(message: str) -> None:
    assert asks_for_advice(query_words(message))


@pytest.mark.parametrize(
    "message",
    [
        "What did you suggest last week?",
        "When should I go?",
        "How long do I need to Berlin?",
        "Where does Anna live?",
        "Wie lange dauert es?",
        "",
    ],
)
def test_other_questions_are_not(message: str) -> None:
    assert not asks_for_advice(query_words(message))
