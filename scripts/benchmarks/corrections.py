"""Natural corrections ("the flight is now on the 14th") with a model that nobody scripted: how many hold, and how many replace another note.

By day Claude says with a tag what replaces what; by night the dream puts in order what was said without tags. Each correction is a chat of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast
from unittest import mock

import typer
from redis import Redis

from scripts.benchmarks.world import describe_machine, hmem, own_world
from scripts.demo_host import BIN

SETS = Path(__file__).parents[2] / "tests" / "data" / "corrections"
Measure = Callable[[dict[str, str], list["Correction"], Redis], None]
#: Seconds for which the dispatcher may get no further with what the night left.
PATIENCE = 300
WITHOUT_LIVE = (
    "bench: nothing was asked. With --live this sends up to 120 short requests for the tags to the Claude CLI (CLAUDE_BIN, with its login or "
    "ANTHROPIC_BASE_URL), and as many for the dream to --writer (claude, or an Ollama at OLLAMA_URL), which may cost money."
)


Language = StrEnum("Language", ["en", "de", "fr", "es", "pt", "ru"])
Way = StrEnum("Way", ["TAGS", "DREAM", "BOTH"])


@dataclass(frozen=True)
class Correction:
    """A note, the message that changes it, and a note of the same chat that stays. `has`: what the new note says, each with alternatives between
    bars; `old`: what it must not say."""

    chat: str
    fact: str
    news: str
    bystander: str
    has: Sequence[str]
    old: Sequence[str]

    def is_new(self, text: str) -> bool:
        said = all(any(stands(word, text) for word in one.split("|")) for one in self.has)
        return said and not any(stands(one, text) for one in self.old)


@dataclass(frozen=True)
class Outcome:
    """What the chat's notes say afterwards."""

    holds: bool
    wrongly_replaces: bool


def stands(words: str, text: str) -> bool:
    """Whether these words, or such that begin with them, stand in a text; a number only as a whole."""
    return bool(re.search(rf"(?<!\w){re.escape(words)}(?!\d)", text, re.IGNORECASE))


def read_corrections(language: str, folder: Path = SETS) -> list[Correction]:
    rows = json.loads((folder / f"{language}.json").read_text(encoding="utf-8"))
    return [
        Correction(f"{language}-{at}", one["fact"], one["news"], one["bystander"], one["has"], one["not"])
        for at, one in enumerate(rows, 1)
    ]


def corrections(
    live: Annotated[bool, typer.Option("--live", help="Ask the models; without it, say what that would need.")] = False,
    writer: Annotated[str, typer.Option(help="WRITER of the dream: claude, claude:haiku, ollama:llama3.1.")] = "claude",
    language: Annotated[list[Language] | None, typer.Option(help="Only this one (repeatable).")] = None,
    count: Annotated[int, typer.Option(help="So many of each language, the first ones.", min=1)] = 20,
    way: Annotated[Way, typer.Option(help="By tags by day, by the dream by night, or both.")] = Way.BOTH,
) -> None:
    """Corrections in six languages through a live model: by its tags and by the dream, how many hold and how many wrongly replace."""
    if not live:
        typer.echo(WITHOUT_LIVE, err=True)
        raise typer.Exit(2)
    cases = [one for name in language or Language for one in read_corrections(name)[:count]]
    describe_machine()
    for name, measure in {Way.TAGS: _by_tags, Way.DREAM: _by_dream}.items():
        if way in (name, Way.BOTH):
            with _live_world(writer) as environment:
                _show(name, cases, _measured(environment, cases, measure))
                _show_usage(environment)


@contextmanager
def _live_world(writer: str) -> Iterator[dict[str, str]]:
    """With the Claude CLI of who runs this, and its login, in place of the stand-in; with none of the settings of an installation (its bots)."""
    with own_world() as environment:
        claude = os.environ.get("CLAUDE_BIN", "claude")
        own = {"HOME": os.environ["HOME"], "CLAUDE_BIN": claude}
        night = {"WRITER": writer, "WRITES": "facts", "WRITER_MINUTES": "600", "DREAM": "apply"}
        environment |= own | night | {"CONSOLIDATION_INTERVAL": "1"}
        with mock.patch.dict(os.environ, environment):
            yield environment


def _measured(environment: dict[str, str], cases: list[Correction], measure: Measure) -> list[Outcome]:
    """The facts are there, the news comes, the notes are judged."""
    from dispatcher.cli.memory import opened_day
    from dispatcher.features.dream.keys import DREAMT
    from dispatcher.memory.day.requests import owner_task
    from dispatcher.memory.store.events import hand_over
    from shared.config.settings import load_settings

    def valid(chat: str) -> list[str]:
        return [memory.text for memory in day.remembering.of_chat(chat).memories]

    with opened_day(load_settings(), vectors=True) as day, Redis.from_url(environment["REDIS_URL"]) as client:
        for case in cases:
            for text in (case.fact, case.bystander):
                day.acting.add(owner_task(case.chat), text, time.time(), kind="fact")
            if {*valid(case.chat)} != {case.fact, case.bystander}:
                raise SystemExit(f"bench: the notes of {case.chat} were not stored as they are")
        hand_over(day.event_outbox, client)
        with subprocess.Popen([BIN / "hmem", "run"], env=environment, stderr=subprocess.DEVNULL) as dispatcher:
            try:
                measure(environment, cases, client)
            finally:
                dispatcher.terminate()
        results = [json.loads(raw) for raw in cast(dict[bytes, bytes], client.hgetall(DREAMT)).values()]
        refused = sum((Counter(one["refused"]) for one in results), Counter[str]())
        if results:
            typer.echo(
                f"the night's changes: {sum(one['changed'] for one in results)} carried out; refused: {dict(refused)}"
            )
        return [judged(case, valid(case.chat)) for case in cases]


def judged(case: Correction, notes: Sequence[str]) -> Outcome:
    """By the texts of the chat's valid notes."""
    return Outcome(case.fact not in notes and any(map(case.is_new, notes)), case.bystander not in notes)


def _by_tags(environment: dict[str, str], cases: list[Correction], _: Redis) -> None:
    failed = []
    for case in cases:
        try:
            hmem(environment, "hmem", "talk", case.chat, "--say", case.news)
        except SystemExit as error:  # the others are measured
            failed.append(str(error))
    if failed:
        typer.echo(f"{len(failed)} messages were not answered, and do not hold; the last: {failed[-1]}")


def _by_dream(environment: dict[str, str], cases: list[Correction], client: Redis) -> None:
    from shared.wire import keys

    for case in cases:  # as a dispatcher leaves what it has answered
        said = {"task_id": case.chat, "chat_id": case.chat, "role": "user", "content": case.news}
        client.set(f"hcli:memory:{case.chat}:user", json.dumps(said | {"timestamp": time.time()}))
        client.rpush(keys.unconsolidated(case.chat), f"{case.chat}:user")
        client.sadd(keys.CHATS, case.chat)
    _wait(lambda: [case.chat for case in cases if client.llen(keys.unconsolidated(case.chat))], "not in the day store")
    (night,) = json.loads(hmem(environment, "hmem-night", "run", "--json"))
    typer.echo(f"without a model: {night['without_model'] or 'nothing'}")
    _wait(lambda: client.hgetall(keys.DREAMS), "not put in order")


def _wait(left: Callable[[], Any], what: str) -> None:
    """Until the dispatcher has left nothing, or has got no further for a while."""
    before, since = None, time.monotonic()
    while (now := left()) and time.monotonic() - since < PATIENCE:
        before, since = (before, since) if now == before else (now, time.monotonic())
        time.sleep(0.5)
    if now:
        typer.echo(f"{len(now)} chats: {what}, and the dispatcher got no further for {PATIENCE} s")


def _show(way: Way, cases: Sequence[Correction], outcomes: Sequence[Outcome]) -> None:
    found = [(case.chat.partition("-")[0], one) for case, one in zip(cases, outcomes, strict=True)]
    for language in [*dict.fromkeys(of for of, _ in found), "all"]:
        some = [one for of, one in found if language in (of, "all")]
        holds, wrongly = sum(one.holds for one in some), sum(one.wrongly_replaces for one in some)
        hold, replace = _share(holds, len(some)), _share(wrongly, len(some))
        typer.echo(f"{way:<6}{language:<4}hold {hold}; wrongly replace {replace}")


def _share(part: int, whole: int) -> str:
    low, high = wilson(part, whole)
    return f"{part} of {whole} ({100 * low:.0f} to {100 * high:.0f} %)"


def wilson(part: int, whole: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share."""
    share, square = part / whole, z * z / whole
    middle, half = share + square / 2, z * math.sqrt(share * (1 - share) / whole + square / (4 * whole))
    return max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square))


def _show_usage(environment: dict[str, str]) -> None:
    """Who answered, and what that took, as far as it says."""
    binary = shutil.which(environment["CLAUDE_BIN"], path=f"{environment['PATH']}:{BIN}") or "false"
    done = subprocess.run([binary, "--version"], env=environment, capture_output=True, text=True, input="", check=False)
    rows = [row for row in json.loads(hmem(environment, "hmem", "usage", "--json")) if row["chat_id"]]
    named = ("input_tokens", "output_tokens", "cache_read", "cache_write", "cost_usd")
    used = ", ".join(f"{name} {sum(row[name] for row in rows):.6g}" for name in named)
    version = done.stdout.strip()[:60] or "unknown"
    typer.echo(f"WRITER {environment['WRITER']}, Claude CLI {version}; used by Claude: {used}")
