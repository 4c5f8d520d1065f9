"""What a task leaves behind, by how it ended: answered, failed, cancelled, not run again, refused. Every result is signed here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.commands.explanation import why_record
from dispatcher.answering.turn import TurnInProgress
from dispatcher.claude.reply import TRY_AGAIN, Answer, spent
from dispatcher.queue.existing_values import is_signed
from dispatcher.queue.rights import Rights
from dispatcher.queue.tasks import Finished
from shared.config.settings import Settings
from shared.text.translations import later, tr
from shared.turns.records import Task, Turn
from shared.turns.signed import Keyboard, Result, keyboard, row_of, signing_key
from shared.wire.ids import FROM_TERMINAL

#: How far another host's clock may be ahead.
CLOCK_SLACK_SECONDS = 300.0

APOLOGY = later("Sorry, I could not answer that: {reason}.")
#: For the owner, in a private chat or at the terminal.
CAUSE = later("The Claude CLI said: “{cause}”. On my host, hmem doctor --try-claude shows what helps.")
OUR_FAULT = later("something went wrong on our side")
POISON = later(
    "Sorry, this message crashed my process {count} times, so I no longer try to answer it. Please rephrase it."
)
REFUSED = later("Sorry, this request could not be read: {reason}.")
CANCELLED = later("Cancelled.")


class ResultBuilder:
    """Makes and signs results; one per dispatcher. It has the secret."""

    def __init__(self, settings: Settings) -> None:
        self._secret = signing_key(settings, "no answer could be signed")
        self._rights = Rights(settings)

    def sign(self, task_id: str, output: str, usage: dict[str, object] | None = None, **more: Any) -> Result:
        """`more`: as `Result.sign` takes it; `error`: the output is not an answer but the reason why there is none."""
        return Result.sign(self._secret, task_id, output, usage=usage or None, **more)

    def signed(self, task_id: str, raw: bytes) -> bool:
        """Whether an existing result was signed by the bot or by us, rather than written by another program."""
        return is_signed(self._secret, task_id, raw)

    def refused(self, task_id: str, reason: str) -> Result:
        """The answer to a task that cannot be read."""
        return self.sign(task_id, tr(REFUSED).format(reason=reason), error=True)

    def answered(self, turn: TurnInProgress) -> Finished:
        """An answer, or the sentence why there is none, which is sent but not stored as a turn; with all that was added to the turn on its way."""
        task, answer, begun = turn.asked, turn.answer, turn.begun
        cost, session_cost = spent(answer, begun.cost_before if turn.session == begun.session else 0.0)
        usage = answer.usage | ({"cost_usd": cost} if answer.session_cost is not None else {})
        turns = [_user_turn(task, turn.claimed_at, turn.session or None)]
        if answer.error is None:
            # Never before its question, whatever time the bot's clock gave that.
            said_at = max(turn.answered_at, turns[0].timestamp)
            media = {"media": [one.to_json() for one in turn.files]} if turn.files else {}
            turns.append(Turn(task.task_id, "asst", task.chat_id, turn.said, said_at, None, turn.session, media))
        apology = self._apology(task, answer)
        output = "\n\n".join([*turn.above, turn.shown if answer.error is None else apology, *turn.below])
        signed = self.sign(
            task.task_id,
            output,
            usage,
            error=answer.error is not None,
            buttons=self._row(turn),
            files=turn.files,
        )
        counters = [("tasks", "1"), ("errors", str(int(answer.error is not None)))]
        return Finished(
            task,
            signed,
            turns,
            begun.session,
            turn.session,
            counters + [(name, _plain(value)) for name, value in usage.items() if name != "model"],
            tags=turn.later_tags,
            why=why_record(turn.context, task.task_id, turn.answered_at),
            forget=turn.forgot,
            session_cost=session_cost,
            outcome="answered" if answer.error is None else "error",
            corrected=turn.corrected,
            error=answer if answer.error is not None else None,
        )

    def _apology(self, task: Task, answer: Answer) -> str:
        said = f"{tr(APOLOGY).format(reason=answer.error)} {answer.advice}"
        owner = task.task_id.startswith(FROM_TERMINAL) or self._rights.counts_all(
            task.chat_id, task.in_group, task.user_id
        )
        return f"{said}\n\n{tr(CAUSE).format(cause=answer.cause)}" if answer.cause and owner else said

    def broken(self, task: Task, claimed_at: float) -> Finished:
        """For a task that failed by a defect of ours: an apology, and the session is left unchanged."""
        output = f"{tr(APOLOGY).format(reason=tr(OUR_FAULT))} {tr(TRY_AGAIN)}"
        return self._unanswered(task, claimed_at, output, "error")

    def unanswered(self, turn: TurnInProgress, sentence: str, outcome: str) -> Finished:
        """For a message of which nothing could be read, or that a feature declines: it is stored, and the session is left unchanged."""
        return self._unanswered(turn.unanswered, turn.claimed_at, sentence, outcome)

    def cancelled(self, turn: TurnInProgress) -> Finished:
        """An existing session can be resumed, whatever the CLI had written of this message; a new one may not exist, so it is not stored."""
        begun = turn.begun
        finished = self.unanswered(turn, tr(CANCELLED), "cancelled")
        was = begun.session or finished.session_was
        return replace(finished, session_was=was, session=begun.session if begun.resume else "")

    def not_again(self, turn: TurnInProgress) -> Finished:
        """For a task that is already done (the script detects that), or that killed its worker too often."""
        deaths = turn.begun.deaths
        finished = self.unanswered(turn, tr(POISON).format(count=deaths), "dead_lettered")
        return replace(finished, dead_reason=f"its worker died {deaths} times")

    def without_turn(self, task: Task, sentence: str) -> Finished:
        """For a task of which nothing is stored: it was forgotten, or is a command that was cancelled before it was carried out."""
        return self.reply(task, CommandReply(tr(sentence), error=True))

    def reply(self, task: Task, reply: CommandReply) -> Finished:
        """A command's answer; none of it is stored as a turn."""
        counters = [("tasks", "1"), ("commands", "1")]
        signed = self.sign(
            task.task_id, reply.text, error=reply.error, buttons=reply.buttons, reply_command=reply.reply_command
        )
        return Finished(task, signed, [], stats=counters, forget=reply.forgotten, corrected=reply.corrected)

    def _row(self, turn: TurnInProgress) -> Keyboard:
        """The buttons below an answer. In a group all but one would be in everybody's way, since only one person could press them."""
        task, task_id = turn.asked, turn.asked.task_id
        offered = turn.unmet and self._rights.unlimited(task.in_group, task.user_id)
        forget = [(tr("Forget this message"), f"/forget task:{task_id}")] if offered else []
        if task.in_group:
            return keyboard(row_of(*forget))
        why = [] if turn.answer.error is not None else [(tr("Why?"), f"/why {task_id}")]
        return keyboard(row_of(*forget), row_of(*why, (tr("Retry"), f"/retry {task_id}")))

    def _unanswered(self, task: Task, claimed_at: float, output: str, outcome: str) -> Finished:
        """Only the message is stored, and the session is not changed."""
        signed, said = self.sign(task.task_id, output, error=True), _user_turn(task, claimed_at, None)
        counters = [("tasks", "1"), ("errors", "0" if outcome in ("declined", "cancelled") else "1")]
        return Finished(task, signed, [said], stats=counters, outcome=outcome)


def _user_turn(task: Task, claimed_at: float, session: str | None) -> Turn:
    at = said_at(task, claimed_at)
    name = task.as_said.get("name", task.name)
    more = (
        task.kept
        | task.origin.to_json()
        | ({"media": [replace(one, kept=None).to_json() for one in task.media]} if task.media else {})
    )
    more |= {"retries": task.retries} if task.retries else {}
    more |= {"scheduled": True} if task.scheduled else {}
    return Turn(task.task_id, "user", task.chat_id, task.said, at, name, session, more, task.user_id)


def said_at(task: Task, claimed_at: float) -> float:
    """The time that the bot gave the message (POSIX seconds), or the claim's if the bot's clock is ahead of ours: nothing is dated in the future."""
    at = task.submitted_at
    return at if at is not None and at <= claimed_at + CLOCK_SLACK_SECONDS else claimed_at


def _plain(value: object) -> str:
    return format(value, ".10f").rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
