"""What a task leaves behind, by how it ended: answered, failed, cancelled, not run again, refused. Every result is signed here."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.media.made_files import Made
from dispatcher.claude.reply import TRY_AGAIN, Answer, spent
from dispatcher.memory.store.whose import in_group
from dispatcher.queue.existing_values import is_signed
from dispatcher.queue.tasks import Begun, Finished
from shared.config.settings import Settings
from shared.system.keys.signing_key import signing_key
from shared.text.translations import later, tr
from shared.turns.media import Media
from shared.turns.records import Task, Turn
from shared.turns.signed.results import Keyboard, Result, keyboard, row_of

#: How far another host's clock may be ahead.
CLOCK_SLACK_SECONDS = 300.0

APOLOGY = later("Sorry, I could not answer that: {reason}.")
OUR_FAULT = later("something went wrong on our side")
POISON = later(
    "Sorry, this message crashed my process {count} times, so I no longer try to answer it. Please rephrase it."
)
REFUSED = later("Sorry, this request could not be read: {reason}.")
CANCELLED = later("Cancelled.")
#: An id that no session has: nothing that depends on the session is written.
NO_SESSION = "-"


class ResultBuilder:
    """Makes and signs results; one per dispatcher. It has the secret."""

    def __init__(self, settings: Settings) -> None:
        self._secret = signing_key(settings, "no answer could be signed")
        self._session_ttl, self._has_row = settings.session_ttl, settings.buttons

    def sign(
        self,
        task_id: str,
        output: str,
        usage: dict[str, object] | None = None,
        *,
        error: bool = False,
        buttons: Keyboard = (),
        reply_command: str = "",
        files: tuple[Media, ...] = (),
    ) -> Result:
        """`error`: the output is not an answer but the reason why there is none."""
        now = datetime.now(UTC).isoformat()
        return Result.sign(
            self._secret,
            task_id,
            output,
            now,
            usage or None,
            error=error,
            buttons=buttons,
            reply_command=reply_command,
            files=files,
        )

    def signed(self, task_id: str, raw: bytes) -> bool:
        """Whether an existing result was signed by the bot or by us, rather than written by another program."""
        return is_signed(self._secret, task_id, raw)

    def refused(self, task_id: str, reason: str) -> Result:
        """The answer to a task that cannot be read."""
        return self.sign(task_id, tr(REFUSED).format(reason=reason), error=True)

    def answered(self, task: Task, claimed_at: float, answer: Answer, begun: Begun, used: str) -> Finished:
        """`used` is the session to continue, "" for none. An error is sent, but not stored as a turn."""
        cost, session_cost = spent(answer, begun.cost_before if used == begun.session else 0.0)
        usage = answer.usage | ({"cost_usd": cost} if answer.session_cost is not None else {})
        turns = [_user_turn(task, claimed_at, used or None)]
        if answer.error is None:
            # Never before its question, whatever time the bot's clock gave that.
            said_at = max(time.time(), turns[0].timestamp)
            turns.append(Turn(task.task_id, "asst", task.chat_id, answer.text, said_at, None, used))
        output = answer.text if answer.error is None else f"{tr(APOLOGY).format(reason=answer.error)} {answer.advice}"
        counters = [("tasks", "1"), ("errors", str(int(answer.error is not None)))]
        return Finished(
            task,
            self.sign(task.task_id, output, usage, error=answer.error is not None, buttons=self._row(task, answer)),
            turns,
            begun.session,
            used,
            self._session_ttl,
            counters + [(name, _plain(value)) for name, value in usage.items() if name != "model"],
            session_cost=session_cost,
            outcome="answered" if answer.error is None else "error",
        )

    def broken(self, task: Task, claimed_at: float) -> Finished:
        """For a task that failed by a defect of ours: an apology, and the session is left unchanged."""
        output = f"{tr(APOLOGY).format(reason=tr(OUR_FAULT))} {tr(TRY_AGAIN)}"
        return replace(self._unanswered(task, claimed_at, output, errors="1"), outcome="error")

    def refused_media(self, task: Task, claimed_at: float, sentence: str) -> Finished:
        """For a message of which nothing could be read: the sentence, and the session is left unchanged."""
        return replace(self._unanswered(task, claimed_at, sentence, errors="1"), outcome="error")

    def declined(self, task: Task, claimed_at: float, sentence: str) -> Finished:
        """For a message that a feature declines: it is stored, and the session is left unchanged."""
        return replace(self._unanswered(task, claimed_at, sentence), outcome="declined")

    def below(self, finished: Finished, shown: str) -> Finished:
        """The answer below what was heard; only the answer itself is stored as its turn."""
        if not shown:
            return finished
        result = finished.result
        output = f"{shown}\n\n{result.output}"
        task_id, buttons, files = finished.task.task_id, result.buttons, result.files
        signed = self.sign(task_id, output, result.usage, error=result.error, buttons=buttons, files=files)
        return replace(finished, result=signed)

    def with_files(self, finished: Finished, made: Made) -> Finished:
        """The answer with what Claude made, and a sentence below it for each file that is not sent; the answer's turn names the files."""
        if not made.files and not made.notes:
            return finished
        result, turn, files = finished.result, finished.turns[-1], tuple(made.files)
        output = "\n\n".join([result.output, *made.notes])
        signed = self.sign(
            finished.task.task_id, output, result.usage, error=result.error, buttons=result.buttons, files=files
        )
        if files and turn.role == "asst":
            turn = replace(turn, extra=turn.extra | {"media": [one.to_json() for one in files]})
        return replace(finished, result=signed, turns=[*finished.turns[:-1], turn])

    def cancelled(self, task: Task, claimed_at: float, begun: Begun) -> Finished:
        """An existing session can be resumed, whatever the CLI had written of this message; a new one may not exist, so it is not stored."""
        finished = self._unanswered(task, claimed_at, tr(CANCELLED))
        return replace(
            finished,
            session_was=begun.session or NO_SESSION,
            session=begun.session if begun.resume else "",
            outcome="cancelled",
        )

    def not_again(self, task: Task, claimed_at: float, deaths: int) -> Finished:
        """For a task that is already done (the script detects that), or that killed its worker too often."""
        finished = self._unanswered(task, claimed_at, tr(POISON).format(count=deaths), errors="1")
        return replace(finished, dead_reason=f"its worker died {deaths} times", outcome="dead_lettered")

    def reply(self, task: Task, reply: CommandReply) -> Finished:
        """A command's answer; none of it is stored as a turn."""
        counters = [("tasks", "1"), ("commands", "1")]
        signed = self.sign(
            task.task_id,
            reply.text,
            error=reply.error,
            buttons=reply.buttons,
            reply_command=reply.reply_command,
        )
        return Finished(task, signed, [], NO_SESSION, "", self._session_ttl, counters, forget=reply.forgotten)

    def _row(self, task: Task, answer: Answer) -> Keyboard:
        """The buttons below an answer in a private chat. In a group they would be in everybody's way, and only one person could press them."""
        if not self._has_row or in_group(task.chat_id):
            return ()
        why = [] if answer.error is not None else [(tr("Why?"), f"/why {task.task_id}")]
        return keyboard(row_of(*why, (tr("Retry"), f"/retry {task.task_id}")))

    def _unanswered(self, task: Task, claimed_at: float, output: str, errors: str = "0") -> Finished:
        """Only the message is stored, and the session is not changed."""
        return Finished(
            task,
            self.sign(task.task_id, output, error=True),
            [_user_turn(task, claimed_at, None)],
            NO_SESSION,
            "",
            self._session_ttl,
            [("tasks", "1"), ("errors", errors)],
        )


def _user_turn(task: Task, claimed_at: float, session: str | None) -> Turn:
    at = said_at(task, claimed_at)
    name = task.as_said.get("name", task.name)
    more = task.kept | task.origin.to_json() | ({"media": [one.to_json() for one in task.media]} if task.media else {})
    more |= {"retries": task.retries} if task.retries else {}
    more |= {"scheduled": True} if task.scheduled else {}
    return Turn(task.task_id, "user", task.chat_id, task.said, at, name, session, more, task.user_id)


def said_at(task: Task, claimed_at: float) -> float:
    """The time that the bot gave the message (POSIX seconds), or the claim's if the bot's clock is ahead of ours: nothing is dated in the future."""
    return (
        task.submitted_at
        if task.submitted_at is not None and task.submitted_at <= claimed_at + CLOCK_SLACK_SECONDS
        else claimed_at
    )


def _plain(value: object) -> str:
    return format(value, ".10f").rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
