#!/usr/bin/env python3
"""A demonstration of the bot's memory: two days of conversation, a real night after each, and questions on the next morning.

    redis-server, hmem run ─ day 1 ─ hmem-night run ─ day 2 ─ hmem-night run ─ questions, and what the model is given

Everything is in one temporary directory and uses the built-in defaults: no key, no account, no network. `stand_in_claude.py` replaces
Claude and prints its input; with --live the real CLI answers the morning's questions.
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
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dispatcher.answering.results import APOLOGY
from dispatcher.prompt.budget import RECALLED_TITLE
from scripts.demo_host import BIN, SAMPLE, STAND_IN, DemoFailed, Host, Message, tail, temporary_host
from shared.text.format import one_line, shorten
from shared.turns.records import RecordRefused

DAYS = 2
WIDTH = 100
#: Characters of a recalled turn that are shown.
SHOWN_CHARACTERS = 110
#: Hits shown for a question; a hit with the evidence is shown at any rank.
SHOWN_HITS = 3

CLAUDE_MISSING = (
    "--live requires the Claude CLI, but there is no `claude` on PATH. "
    "Install it (npm install -g @anthropic-ai/claude-code), run `claude` once to log in, and start the demo again."
)
LEGEND = (
    "Each table shows the hits of `hmem context CHAT TEXT`. words: keyword match; meaning: vector match; both from 0 (the lowest in "
    "this chat) to 1 (the highest); score: the sum of these and smaller factors, such as the speaker. ✓ marks lines with the evidence. "
    "No session of the two days is resumed: the model knows only what is injected."
)


def read_sample() -> tuple[list[Message], list[Message]]:
    """(exchanges, questions), in the order of the file."""
    found: dict[str, list[Message]] = {"exchange": [], "question": []}
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        found[record.pop("kind")].append(Message(**record))
    return found["exchange"], found["question"]


class Demo:
    """The acts, on a console. `claude` is the real CLI for the morning's questions; without it the stand-in answers them too."""

    def __init__(self, host: Host, console: Console, claude: Path | None) -> None:
        self._host, self._console, self._claude = host, console, claude
        self._exchanges, self._questions = read_sample()
        latest = (datetime.now(UTC) - timedelta(days=DAYS)).replace(hour=0, minute=0, second=0, microsecond=0)
        # a Friday: "Saturday night" in the talk is then no day before it, whenever the demo runs
        self._first_day = latest - timedelta(days=(latest.weekday() - 4) % 7)

    def play(self) -> tuple[int, int]:
        """(questions whose evidence was injected, questions)."""
        self._say(f"Real: redis-server, hmem run and hmem-night run, on built-in defaults, in {self._host.directory}.")
        self._say("Simulated: Claude (a stand-in) and the clock (two days in seconds; turns have the sample's times).")
        self._host.start_redis()
        self._host.start_dispatcher(STAND_IN)
        for day in range(1, DAYS + 1):
            self._day(day, [exchange for exchange in self._exchanges if exchange.day == day])
            self._night(day)
        found = self._morning()
        return found, len(self._questions)

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left", style="dim")

    def _say(self, text: str, style: str = "", indent: int = 0) -> None:
        self._console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))

    def _day(self, day: int, messages: list[Message]) -> None:
        """Enqueue the whole day (the dispatcher keeps the order within a chat), then wait for the answers."""
        midnight = self._first_day + timedelta(days=day - 1)
        self._heading(f"Day {day}, {midnight:%A %Y-%m-%d}: hmem run answers the bot's messages")
        started = time.monotonic()
        times = {}
        for number, message in enumerate(messages, start=1):
            moment = datetime.combine(midnight, time_of_day.fromisoformat(message.time), UTC)
            times[f"demo-{day}-{number:02}"] = moment
            self._host.enqueue(f"demo-{day}-{number:02}", message, moment)
        with self._console.status("Answering"):
            for task_id, moment in times.items():
                self._host.collect(task_id)
                self._host.date_answer(task_id, moment)
        seconds = time.monotonic() - started
        for chat_id in dict.fromkeys(message.chat_id for message in messages):
            self._chat([message for message in messages if message.chat_id == chat_id])
        self._say(
            f"{len(messages)} messages answered in {seconds:.1f} s, every signature verified. "
            f"{self._host.turns_waiting()} turns (messages and answers) are in Redis, waiting for the night.",
            "dim",
        )

    def _chat(self, messages: list[Message]) -> None:
        """A chat's day, with the message that a question in the morning refers to, if there is one."""
        expected = [question.expects for question in self._questions]
        asked = [m for m in messages if any(words in m.message or words in m.answer for words in expected)]
        shown = (asked or messages)[0]
        names = ", ".join(dict.fromkeys(message.name for message in messages))
        self._say(f"{names} (chat {shown.chat_id}), {len(messages)} messages. One of them:")
        self._say(f"{shown.time} {shown.name}: {shown.message}", "cyan", 2)

    def _night(self, number: int) -> None:
        self._heading(f"Night {number}: hmem-night run")
        with self._console.status("The night runs"):
            line = self._host.command("hmem-night", "run")
        self._say(line)

    def _morning(self) -> int:
        """Ask all questions; how many had their evidence injected."""
        self._heading("Morning: the same people ask questions, and this is what the model is given")
        if self._claude:
            self._host.stop_dispatcher()
            self._host.start_dispatcher(self._claude, own_home=True)
            self._host.wait_until_served()
            self._say(f"A stand-in answered the two days; from now on Claude answers ({self._claude}).", "bold")
        else:
            self._say("Claude is not used: a stand-in prints its input.", "bold")
        self._say(LEGEND, "dim")
        return sum([self._question(number, question) for number, question in enumerate(self._questions, start=1)])

    def _question(self, number: int, question: Message) -> bool:
        """Whether the evidence was in what the model was given."""
        arguments = ("context", "--json", "--", str(question.chat_id), question.message)
        self._host.end_session(question.chat_id)
        context = json.loads(self._host.command("hmem", *arguments))
        result, seconds = self._ask(question)
        self._console.print()
        self._say(f"{number}. {question.name} (chat {question.chat_id}): {question.message}", "bold")
        self._console.print(Padding(hits_table(context, question.expects, self._first_day), (0, 0, 0, 3), expand=False))
        self._say(sizes(context), "dim", 3)
        if self._claude:
            self._claude_says(result, seconds)
            return question.expects in context["text"]
        given = result["output"].partition("\n\n")[2]
        if context["text"] not in given:  # the rules for tags precede it, this request's code follows it
            self._say("The stand-in was given a different text: see the dispatcher's log (--keep).", "yellow", 3)
        if number == 1:
            self._say("The stand-in's full answer, which is the text that Claude would have been given:", "", 3)
            self._console.print(Padding(in_full(given, question.expects), (0, 0, 0, 3), expand=False))
        return question.expects in given

    def _ask(self, question: Message) -> tuple[dict[str, Any], float]:
        """The answer and the seconds it took, in a new session, so that all knowledge comes from memory."""
        self._host.end_session(question.chat_id)
        started = time.monotonic()
        with self._console.status("Asking"):
            arguments = ("talk", "--json", "--say", question.message, "--", str(question.chat_id))
            output = self._host.command("hmem", *arguments, check=False)
        if not output:
            raise DemoFailed(f"hmem talk printed no answer. Its log ends:\n{tail(self._host.log('hmem'))}")
        return json.loads(output), time.monotonic() - started

    def _claude_says(self, result: dict[str, Any], seconds: float) -> None:
        before = APOLOGY.partition("{reason}")[0]
        if result["output"].startswith(before):
            reason = result["output"].removeprefix(before)
            raise DemoFailed(
                f"Claude did not answer: {reason} Try `claude -p hello`; if it requires a login, run `claude`."
            )
        cost = (result["usage"] or {}).get("cost_usd")
        self._say(f"Claude, in {seconds:.1f} s" + (f" for ${cost:.4f}:" if cost else ":"), "dim", 3)
        self._say(result["output"], "cyan", 3)


def hits_table(context: dict[str, Any], expects: str, first_day: datetime) -> Table:
    """The best hits with their scores, and every other place with the evidence."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name, right in (("", False), ("", True), ("score", True), ("words", True), ("meaning", True), ("time", False)):
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    table.add_column("")
    for rank, hit in enumerate(context["hits"], start=1):
        holds = expects in hit["text"]
        if rank <= SHOWN_HITS or holds:
            scores = [score_text(value) for value in (hit["score"], hit["scores"]["words"], hit["scores"]["meaning"])]
            text = Text(f"{hit['speaker']}: ").append(excerpt(one_line(hit["text"]), expects if holds else ""))
            at = datetime.fromtimestamp(hit["timestamp"], UTC)
            when = f"day {(at - first_day).days + 1} {at:%H:%M}"
            table.add_row("✓" if holds else "", str(rank), *scores, when, text, style="" if holds else "dim")
    if expects in context["text"].partition(RECALLED_TITLE)[0]:
        table.add_row("✓", "", "", "", "", "summary", Text("also in the chat's summary"))
    if expects not in context["text"]:
        table.add_row("✗", "", "", "", "", "", Text(f"nothing that is injected contains “{expects}”", style="bold red"))
    return table


def score_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def excerpt(text: str, expects: str) -> Text:
    """The part of a text with the evidence, which is highlighted; without evidence its beginning."""
    at = text.find(expects) if expects else 0
    start = max(0, at - (SHOWN_CHARACTERS - len(expects)) // 2) if at + len(expects) > SHOWN_CHARACTERS else 0
    start = text.find(" ", start) + 1 if start else 0
    shown = Text(("…" if start else "") + shorten(text[start:], SHOWN_CHARACTERS))
    if expects:
        shown.highlight_words([expects], "bold green")
    return shown


def sizes(context: dict[str, Any]) -> str:
    parts = {part["name"]: part["tokens"] for part in context["parts"]}
    text = (
        f"Injected: {context['tokens']} of {context['budget']} tokens: {parts.get('summary', 0)} for the chat's summary, "
        f"{parts.get('recalled', 0)} for {len(context['hits'])} recalled lines, the rest for headings; "
        f"{len(context['cut'])} hits with lower scores did not fit. Found in {context['ms']:.0f} ms."
    )
    return " ".join([text, *(f"Left out: {reason}." for reason in context["degraded"])])


def in_full(text: str, expects: str) -> Table:
    """Every line of a text after a bar, or after a tick if it has the evidence."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for line in text.splitlines():
        holds = expects in line
        shown = Text(line)
        shown.highlight_words([expects], "bold green")
        table.add_row("✓" if holds else "│", shown)
    return table


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
        console.print(Text(f"  env {shlex.join(where)} search 4471 dentist"), soft_wrap=True)
    line = f"The evidence was injected for {found} of {questions} questions, in {time.monotonic() - started:.0f} s."
    console.print(Text(f"{line} Next step: docs/install.md.", style="bold green" if found == questions else "bold red"))
    return 0 if found == questions else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Two days of conversation, two nights, and what the bot remembers on the next morning."
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
