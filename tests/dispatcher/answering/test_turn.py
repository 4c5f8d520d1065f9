"""A message in progress: what features add to it, and what is stored of it if there is no answer."""

from __future__ import annotations

from dataclasses import replace

from dispatcher.answering.turn import ForQuestion, TurnInProgress
from dispatcher.queue.cancellation import Run
from shared.turns.media import Media
from shared.turns.records import Task


def test_what_was_read_goes_to_claude_and_a_message_without_an_answer_is_stored_as_it_came() -> None:
    voice = Media("voice", "0" * 64, 9)
    task = Task("t", "7", "see \ud83d", name="A\udc00", media=(voice,))
    turn = TurnInProgress(task, 1.0, Run(), [], task)
    heard = replace(voice, text="the heron")
    turn.prepare(ForQuestion(media=(heard,), lines=["Spoken."], above=["heard"]))
    assert (turn.asked.media, turn.asked.said, turn.asked.as_said["name"]) == ((heard,), "see \ud83d", "A\udc00")
    turn.prepare(ForQuestion(message="see the heron"))
    assert (turn.asked.said, turn.asked.as_said) == ("see the heron", {"name": "A\udc00"})
    assert (turn.lines, turn.above, turn.unanswered) == (["Spoken."], ["heard"], task)
    assert turn.unanswered.said == "see \ud83d"
