"""What stands in front of the model: a set's talk is lived through, then its questions are asked, and judged line by line by its score_prompt.py.

The talk goes through the dispatcher's own code in this process, at its own times, answered with the set's answers and the tags for what they keep;
a real night follows each day. Only Claude is absent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from unittest import mock
from zoneinfo import ZoneInfo

import typer
from redis import Redis

from scripts.benchmarks.world import describe_machine, own_world
from shared.text.logs import configure_logs

if TYPE_CHECKING:
    from dispatcher.answering.task_handler import TaskHandler

ZONE, NIGHT_HOUR = ZoneInfo("Europe/Berlin"), 3
Row = dict[str, Any]


def prompt(
    folder: Annotated[Path, typer.Option("--set", help="Folder with talk.jsonl and questions.jsonl.", exists=True)],
    older: Annotated[str, typer.Option(help="DIR:COUNT: so many turns of a set of recall, before each chat.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the contexts here, a line each.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Judge each question, too.")] = False,
) -> None:
    """Live through a set of talk, a night after each day, ask its questions, and judge what the model would be given."""
    describe_machine()
    began = time.perf_counter()
    with own_world() as environment, tempfile.TemporaryDirectory() as scratch:
        contexts = out or Path(scratch) / "contexts.jsonl"
        environment |= {"TZ": ZONE.key, "CHAT_TIMEZONE": ZONE.key, "MEMORY_DEADLINE_MS": "60000"}
        with mock.patch.dict(os.environ, environment):
            replay = _Replay(environment["REDIS_URL"], _rows(folder / "talk.jsonl"))
            if older:
                place, _, count = older.rpartition(":")
                replay.lay_before(_rows(Path(place) / "turns.jsonl")[: int(count)])
            found = asyncio.run(replay.live(_rows(folder / "questions.jsonl")))
        contexts.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found), encoding="utf-8")
        took = [one["ms"] for one in found]
        typer.echo(
            f"{len(replay.talk)} exchanges, {replay.nights} nights, {len(found)} questions in {time.perf_counter() - began:.0f} s; "
            f"a question's context: median {statistics.median(took):.1f} ms, longest {max(took):.1f} ms"
        )
        there = sum(stood for stood, _ in _Scripted.corrections)
        typer.echo(
            f"corrections: the note to be replaced stood in the prompt of {there} of {len(_Scripted.corrections)}"
        )
        if list_all:
            typer.echo("\n".join(f"  without: {text}" for stood, text in _Scripted.corrections if not stood))
        if (judge := folder.parent / "score_prompt.py").exists():
            command = [sys.executable, str(judge), str(folder), str(contexts), *(["--list"] if list_all else [])]
            typer.echo(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


class _Replay:
    """One life of a set: `now` is what every part of the program takes for the time."""

    def __init__(self, url: str, talk: list[Row]) -> None:
        self.talk, self.now, self.nights = talk, talk[0]["at"], 0
        self._url = url
        self._last: dict[str, float] = defaultdict(float)

    def lay_before(self, turns: list[Row]) -> None:
        """The same turns as the older talk of each chat, the last of them a day before its first exchange."""
        first = {chat: min(row["at"] for row in self.talk if row["chat_id"] == chat) for chat in self._chats()}
        shift = {chat: at - 86_400 - max(turn["timestamp"] for turn in turns) for chat, at in first.items()}
        with Redis.from_url(self._url) as client, client.pipeline(transaction=False) as pipe:
            for chat in shift:
                for turn in turns:
                    one = turn | {
                        "chat_id": chat, "task_id": f"{turn['task_id']}-{chat}", "timestamp": turn["timestamp"] + shift[chat]
                    }  # fmt: skip
                    pipe.set(f"hcli:memory:{one['task_id']}:{one['role']}", json.dumps(one))
            pipe.execute()

    def _chats(self) -> list[str]:
        return list(dict.fromkeys(row["chat_id"] for row in self.talk))

    async def live(self, questions: list[Row]) -> list[Row]:
        """A context for each question: qid, text, lines, ms."""
        configure_logs("ERROR", as_json=False)
        with mock.patch.object(time, "time", lambda: self.now):
            async with _dispatcher(lambda: self.now) as (handler, consolidate):
                for row in self.talk:
                    await self._until(row["at"], handler)
                    await self._say(row, handler)
                    await asyncio.to_thread(consolidate)
                await self._until(max(row["at"] for row in questions), handler)
                return [await asyncio.to_thread(self._ask, row, handler) for row in questions]

    async def _until(self, at: float, handler: TaskHandler) -> None:
        """Let the time pass: a night for each 03:00 in between, and the end of what Redis keeps for a while only."""
        from shared.wire import keys

        while (night := _next_night(self.now)) <= at:
            self.now = night
            await handler.parts.core.queue.leave()
            await asyncio.to_thread(_night)
            self.nights += 1
            handler.parts.core.served.refresh()
        self.now = at
        with Redis.from_url(self._url) as client:
            for chat, last in self._last.items():
                if at - last > handler.parts.core.day.settings.session_ttl:
                    client.delete(keys.session(chat))
                if at - last > keys.HISTORY_TTL_SECONDS:
                    client.delete(keys.history(chat))

    async def _say(self, row: Row, handler: TaskHandler) -> None:
        from dispatcher.queue.cancellation import Run
        from dispatcher.queue.tasks import Claim

        number = self.talk.index(row)
        task = {name: row[name] for name in ("chat_id", "user_id", "name", "message", "chat_type") if name in row}
        submitted = datetime.fromtimestamp(row["at"], ZONE).isoformat()
        with Redis.from_url(self._url) as client:
            client.rpush("hcli:tasks", json.dumps({"task_id": f"talk-{number}", "submitted_at": submitted, **task}))
        _Scripted.row = row
        await handler.parts.core.queue.beat(None, "")
        claim = await handler.parts.core.queue.claim(handler.parts.core.queue.next_token())
        if not isinstance(claim, Claim):
            raise SystemExit(f"bench: exchange {number} was not claimed")
        await handler.handle(claim, Run())
        self._last[row["chat_id"]] = self.now

    def _ask(self, row: Row, handler: TaskHandler) -> Row:
        from dispatcher.memory.day.read_for_prompt import PromptRequest
        from dispatcher.prompt.assemble import assemble

        self.now = row["at"]
        request = PromptRequest(
            row["chat_id"], row["question"], session="a-session-that-goes-on", count_access=False, now=self.now,
            user_id=str(row["user_id"]), name=row["name"],
        )  # fmt: skip
        began = time.perf_counter()
        with handler.parts.core.served.reading() as release:
            context = assemble(
                request,
                handler.parts.core.day.settings,
                release,
                handler.parts.core.day,
                handler.parts.core.served.no_release_reason,
            )
        took = 1000 * (time.perf_counter() - began)
        if context.degraded:
            raise SystemExit(f"bench: {row['qid']}: {context.degraded}")
        return {"qid": row["qid"], "text": context.text, "lines": context.lines_json(), "ms": took}


class _Scripted:
    """In place of the Claude CLI: the set's answer to the message, with the tags that keep what it keeps."""

    row: Row
    corrections: ClassVar[list[tuple[bool, str]]] = []  # whether the note that an answer replaces stood in its prompt

    async def ask(self, question: Any, _report: object = None) -> Any:
        from dispatcher.claude.reply import Answer

        given = question.message + (question.prompt_file.read_text("utf-8") if question.prompt_file else "")
        tags = []
        code = re.findall(r"Tag code of this request: (\w+)", given)[-1]
        for kept in self.row["keeps"]:
            number = _number_of(kept.get("replaces"), given)
            if kept.get("replaces"):
                self.corrections.append((number is not None, kept["replaces"]))
            tags.append(_tag(kept, code, number, self.row["at"]))
        return Answer("\n".join([self.row["answer"], "", *tags]).strip())

    async def flags(self) -> tuple[str, ...]:
        return ()


def _number_of(text: str | None, given: str) -> str | None:
    """The number with which a note stands in a prompt, by its text; None if it does not."""
    found = re.search(rf"^(\d+)\. noted [^:\n]*: {re.escape(text)}", given, re.MULTILINE) if text else None
    return found[1] if found else None


def _tag(kept: Row, code: str, replaced: str | None, at: float) -> str:
    """The tag for what an answer keeps; dates in ISO 8601, as Claude is asked for them."""
    from dispatcher.memory.dates.user_dates import deadline_of

    kind = {"fact": "REMEMBER"}.get(kept["kind"], kept["kind"].upper())
    options = f" | REPLACES: {replaced}" if replaced else ""
    if kept.get("deadline"):
        options += f" | DEADLINE: {datetime.fromtimestamp(deadline_of(kept['deadline'], at, ZONE), ZONE).date()}"
    return f"[{kind} {code}: {kept['text']}{options}]"


@asynccontextmanager
async def _dispatcher(now: Callable[[], float]) -> AsyncIterator[tuple[TaskHandler, Callable[[], None]]]:
    """A dispatcher's parts, and a round of its consolidation."""
    from dispatcher.answering.opening import open_parts
    from dispatcher.answering.task_handler import TaskHandler
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.queue.consolidation.rounds import Consolidator
    from dispatcher.releases.served import ServedRelease
    from shared.config.settings import load_settings
    from shared.wire.client import BACKGROUND, open_async_redis, open_redis

    settings = load_settings()
    served, client = ServedRelease(settings), open_async_redis(settings.redis_url)
    day = DayMemory(settings, served.reading)
    day.open()
    handler = TaskHandler(open_parts(settings, client, _Scripted(), day, served))  # type: ignore[arg-type]
    consolidator = Consolidator(day, open_redis(settings.redis_url, BACKGROUND), handler.parts.core.queue.worker, now)
    yield handler, consolidator.round
    await client.aclose()
    handler.parts.close()


def _night() -> None:
    from nightly.night.progress import Reporter
    from nightly.pipeline import run_nights
    from shared.config.settings import load_settings

    run_nights(load_settings(), Reporter(quiet=True))


def _next_night(after: float) -> float:
    """The next 03:00 after that time, in POSIX seconds."""
    local = datetime.fromtimestamp(after, ZONE)
    night = local.replace(hour=NIGHT_HOUR, minute=0, second=0, microsecond=0)
    return (night if night > local else night + timedelta(days=1)).timestamp()
