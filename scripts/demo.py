#!/usr/bin/env python3
"""A demonstration of the bot's memory: two days of talk, a real night, and what the bot remembers when it is asked on the next morning.

    redis-server, hmem run ─ two days ─ hmem-night run ─ questions, and what the model is given for each

Everything is in one temporary directory and uses the built-in defaults: no key, no account, no network. `stand_in_claude.py` takes the place of
Claude in the talk; with --live the real CLI answers the morning's questions.
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any, cast

import redis
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from dispatcher.answering.results import APOLOGY
from nightly.pipeline import step_names
from scripts.demo_host import BIN, SAMPLE, STAND_IN, DemoFailed, Host, Message, tail, temporary_host
from shared.text.format import one_line, shorten
from shared.turns.records import RecordRefused

WIDTH = 120
#: Exchanges of the talk that are shown.
SHOWN_EXCHANGES = 4
#: Questions at once: each starts a program of its own, which opens the model.
AT_ONCE = 2

CLAUDE_MISSING = (
    "--live requires the Claude CLI, but there is no `claude` on PATH. "
    "Install it (npm install -g @anthropic-ai/claude-code), run `claude` once to log in, and start the demo again."
)


def read_sample() -> tuple[list[Message], list[Message]]:
    """(exchanges, questions), in the order of the file."""
    found: dict[str, list[Message]] = {"exchange": [], "question": []}
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found[record.pop("kind")].append(Message(**record))
    return found["exchange"], found["question"]


class Demo:
    """The acts, on a console. `claude` is the real CLI for the morning's questions."""

    def __init__(self, host: Host, console: Console, claude: Path | None) -> None:
        self._host, self._console, self._claude = host, console, claude
        self._exchanges, self._questions = read_sample()
        latest = (datetime.now(UTC) - timedelta(days=2)).replace(hour=0, minute=0, second=0, microsecond=0)
        # a Friday: "Saturday night" in the talk is then no day before it, whenever the demo runs
        self._first_day = latest - timedelta(days=(latest.weekday() - 4) % 7)

    def play(self) -> tuple[int, int]:
        """(questions whose answer was remembered, questions)."""
        self._say(
            "A real Redis, memory and night, in a temporary directory. The talk is a sample, and a stand-in plays Claude."
        )
        self._host.start_redis()
        self._host.start_dispatcher(STAND_IN)
        self._talk()
        self._night()
        return self._morning(), len(self._questions)

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left", style="dim")

    def _say(self, text: str, style: str = "", indent: int = 0) -> None:
        self._console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))

    def _line(self, before: str, text: str, style: str = "", evidence: str = "") -> None:
        """On one line of the console."""
        shown = Text(f"  {before}", style="dim").append(
            excerpt(text, evidence, self._console.width - len(before) - 3), style
        )
        shown.highlight_words([evidence] if evidence else [], "bold green")
        self._console.print(shown, no_wrap=True)

    def _talk(self) -> None:
        """Enqueue all of it (the dispatcher keeps the order within a chat), then wait for the answers."""
        self._heading("Friday and Saturday: three chats")
        times = {}
        for number, message in enumerate(self._exchanges, start=1):
            day = self._first_day + timedelta(days=message.day - 1)
            times[f"demo-{number:02}"] = datetime.combine(day, time_of_day.fromisoformat(message.time), UTC)
            self._host.enqueue(f"demo-{number:02}", message, times[f"demo-{number:02}"])
        with self._console.status("Answering"):
            for task_id, moment in times.items():
                self._host.collect(task_id)
                self._host.date_answer(task_id, moment)
        expected = [question.expects for question in self._questions]
        asked = [one for one in self._exchanges if any(words in one.message for words in expected)]
        for one in [self._exchanges[0], *asked][:SHOWN_EXCHANGES]:
            at = f"{('Fri', 'Sat')[one.day - 1]} {one.time}"
            self._line(f"{at}  {one.name + ':':6} ", one.message, "cyan")
            self._line(f"{'':9}  {'bot:':6} ", one.answer)
        self._say(f"… and {len(times) - SHOWN_EXCHANGES} more messages, each answered.", "dim", 2)

    def _night(self) -> None:
        self._heading("The night makes memory of them")
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TextColumn("steps,"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            bar = progress.add_task("hmem-night run", total=len(step_names()))
            self._host.command(
                "hmem-night", "run", watch=lambda: progress.update(bar, completed=self._host.steps_done())
            )
            progress.update(bar, completed=len(step_names()))
        chats = json.loads(self._host.command("hmem", "chats", "--json"))["chats"]
        named = ", ".join(f"{one['released']} with {one['name'].replace(', ', ' + ')}" for one in chats)
        self._say(f"Remembered: {sum(one['released'] for one in chats)} messages and answers: {named}.", "", 2)

    def _morning(self) -> int:
        """Ask all questions; to how many the answer was remembered."""
        self._heading("Sunday: new conversations, so the bot knows only what it remembers")
        if self._claude:
            self._host.stop_dispatcher()
            self._host.start_dispatcher(self._claude, own_home=True)
            self._host.wait_until_served()
            return sum(self._question(question, self._context(question)) for question in self._questions)
        with ThreadPoolExecutor(AT_ONCE) as asking:
            return sum(map(self._question, self._questions, asking.map(self._context, self._questions)))

    def _context(self, question: Message) -> dict[str, Any]:
        """What the model is given with it, as `hmem context` says."""
        self._host.end_session(question.chat_id)
        said = self._host.command("hmem", "context", "--json", "--", str(question.chat_id), question.message)
        return cast(dict[str, Any], json.loads(said))

    def _question(self, question: Message, context: dict[str, Any]) -> bool:
        """Whether what answers it is in what the model is given."""
        self._line(f"{question.name}: ", question.message, "bold cyan")
        hits = [hit for hit in context["hits"] if question.expects in hit["text"]] or context["hits"][:1]
        for hit in hits[:1]:
            at = datetime.fromtimestamp(hit["timestamp"], UTC)
            mark = "✓" if question.expects in hit["text"] else "✗"
            self._line(f"  {mark} {at:%a %H:%M} {hit['speaker']}: ", one_line(hit["text"]), evidence=question.expects)
        rest = f"with {len(context['hits']) - 1} more lines and a summary of this chat: {context['tokens']:,} of at most {context['budget']:,} tokens"
        self._line("    ", rest, "dim")
        if self._claude:
            self._ask(question)
        return question.expects in context["text"]

    def _ask(self, question: Message) -> None:
        """Claude's own answer, in a new session."""
        started = time.monotonic()
        with self._console.status("Asking"):
            arguments = ("talk", "--json", "--say", question.message, "--", str(question.chat_id))
            output = self._host.command("hmem", *arguments, check=False)
        if not output:
            raise DemoFailed(f"hmem talk printed no answer. Its log ends:\n{tail(self._host.log('hmem'))}")
        result: dict[str, Any] = json.loads(output)
        before = APOLOGY.partition("{reason}")[0]
        if result["output"].startswith(before):
            reason = result["output"].removeprefix(before)
            raise DemoFailed(
                f"Claude did not answer: {reason} Try `claude -p hello`; if it requires a login, run `claude`."
            )
        cost = (result["usage"] or {}).get("cost_usd")
        self._say(f"Claude, in {time.monotonic() - started:.1f} s" + (f" for ${cost:.4f}:" if cost else ":"), "dim", 4)
        self._say(result["output"], "", 4)


def excerpt(text: str, evidence: str, width: int) -> str:
    """As much of a text as fits: the part around the evidence, or its beginning."""
    text = one_line(text)
    end = text.find(evidence) + len(evidence)
    start = text.find(" ", max(0, end - width + 2)) + 1 if evidence and end > width - 1 else 0
    return ("…" if start else "") + shorten(text[start:], width - bool(start))


def demonstrate(console: Console, claude: Path | None, *, keep: bool, web: bool) -> int:
    """Run the whole demo; returns the exit code."""
    started = time.monotonic()
    with temporary_host(keep=keep) as host:
        found, questions = Demo(host, console, claude).play()
        if web:
            console.print("\nThe owner's page; Ctrl-C ends it and the demo:")
            host.show_page()
    console.print()
    if keep:
        console.print(Text(f"Everything is in {host.directory} (servers stopped), with logs in logs/. To search it:"))
        where = [
            f"HMEM_MEMORY_DIR={host.directory}/memory",
            f"HMEM_STATE_DIR={host.directory}/state",
            str(BIN / "hmem"),
        ]
        console.print(Text(f"  env {shlex.join(where)} search Noor dentist"), soft_wrap=True)
    line = f"The answer was remembered for {found} of {questions} questions, in {time.monotonic() - started:.0f} s."
    console.print(Text(f"{line} Next: docs/install.md", style="bold green" if found == questions else "bold red"))
    return 0 if found == questions else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Two days of talk, a night, and what the bot remembers on the next morning."
    )
    parser.add_argument(
        "--live", action="store_true", help="let the installed Claude CLI answer the morning's questions"
    )
    parser.add_argument("--keep", action="store_true", help="keep the temporary directory, and print its path")
    parser.add_argument("--web", action="store_true", help="then show it all on the owner's page, until Ctrl-C")
    options = parser.parse_args()
    claude = (shutil.which("claude") or shutil.which("claude", path=str(BIN))) if options.live else None
    if options.live and claude is None:
        print(CLAUDE_MISSING, file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ✓ shows ? instead
    console = Console(width=min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns), highlight=False)
    try:
        return demonstrate(console, Path(claude) if claude else None, keep=options.keep, web=options.web)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except (DemoFailed, RecordRefused, redis.RedisError, OSError) as error:
        print(f"The demo failed. {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
