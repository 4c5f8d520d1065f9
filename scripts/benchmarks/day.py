"""Measurement of a whole context by day: the release, turns of today, typed memories, a session's summary, all at once.

A real night makes the release of seeded talk; the day's store is filled through the product's own calls. Vectors of turns and memories are
seeded random unit vectors (the hardest for a search); questions are embedded as by day. It runs in a process of its own.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import typer

from scripts.benchmarks.memory import WORDS, Environment, in_own_process, megabytes, percentile

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory

QUESTIONS = 300


def measure(environment: Environment, label: str, memories: int, day_turns: int, chat: str) -> None:
    """Print how long the contexts of one chat take."""
    found = in_own_process(__file__, environment, str(memories), str(day_turns), chat)
    typer.echo(
        f"  {label}: first {found['first']:.0f} ms; warm p50 {found['p50']:.1f} / p99 {found['p99']:.1f} ms, after a turn more "
        f"{found['changed_p50']:.1f} / {found['changed_p99']:.1f} ms, after a memory more {found['added']:.1f} ms; "
        f"parts {found['parts']}; {found['tokens']} tokens; RSS {found['mb']:.0f} MB; degraded: {found['degraded'] or 'never'}"
    )


def _filled(day: DayMemory, chat: str, memories: int, turns: int) -> None:
    """Typed memories and the turns of today of one chat, and one ended session."""
    import numpy as np

    from dispatcher.memory.embedder import packed
    from dispatcher.memory.store.memories import Memory, MemoryType
    from dispatcher.memory.store.summaries import SessionSummary
    from dispatcher.memory.store.turns import StoredTurn
    from shared.turns.records import Turn

    chance, generator, now = random.Random(5), np.random.default_rng(5), time.time()

    def vector() -> bytes:
        made = generator.standard_normal(384).astype(np.float32)
        return packed(made / np.linalg.norm(made))

    def said(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words))

    model = day.embedder.model
    kinds = [MemoryType.FACT] * 7 + [MemoryType.GOAL] * 2 + [MemoryType.PREFERENCE]
    with day.memories.transaction() as connection:
        for number in range(memories):
            kind = kinds[number % len(kinds)]
            deadline = now + chance.uniform(-5, 90) * 86_400 if kind is MemoryType.GOAL and number % 3 == 0 else None
            made = Memory(chat, kind, said(9), now - number * 600, deadline=deadline, importance=chance.randint(1, 5),
                          embedding=vector(), embedding_model=model)  # fmt: skip
            day.memories.add(chat, made, connection=connection)
    stored = [
        StoredTurn(
            Turn(f"today{number // 2}", ("user", "asst")[number % 2], chat, f"{said(12)} {number}", now - 3600 + 10 * number),
            embedding=vector(), embedding_model=model,
        ) for number in range(turns)
    ]  # fmt: skip
    day.turns.store(stored)
    day.summaries.store(
        SessionSummary(chat, "ended", f"- user: {said(60)}", now - 900, now - 800, now, ("today0:user",))
    )


def _measured(memories: int, turns: int, chat: str) -> dict[str, Any]:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.prompt.assemble import PromptRequest, assemble
    from dispatcher.prompt.context import Context
    from dispatcher.releases.served import ServedRelease
    from shared.config.settings import load_settings
    from shared.turns.records import Turn

    settings, chance = load_settings(), random.Random(11)
    with closing(ServedRelease(settings)) as served, closing(DayMemory(settings, served.reading)) as day:
        served.refresh()
        day.embedder.open()
        _filled(day, chat, memories, turns)
        day.open()
        found: list[Context] = []

        def ask() -> float:
            question, began = " ".join(chance.choices(WORDS, k=6)) + "?", time.perf_counter()
            with served.reading() as release:
                found.append(
                    assemble(PromptRequest(chat, question, ()), settings, release, day, served.no_release_reason)
                )
            return (time.perf_counter() - began) * 1000

        def ask_after_a_turn(number: int) -> float:
            day.upkeep.store_turns(
                [Turn(f"new{number}", "user", chat, " ".join(chance.choices(WORDS, k=12)), time.time())]
            )
            return ask()

        first = ask()
        warm = [ask() for _ in range(QUESTIONS)]
        changed = [ask_after_a_turn(number) for number in range(QUESTIONS // 5)]
        added = []
        for number in range(10):
            day.remembering.add(chat, _fact(), f"{' '.join(chance.choices(WORDS, k=9))} {number}", now=time.time())
            added.append(ask())
        names = {part.name for context in found for part in context.parts}
        return {
            "first": first, "p50": statistics.median(warm), "p99": percentile(warm), "changed_p50": statistics.median(changed),
            "changed_p99": percentile(changed), "added": statistics.median(added), "parts": ", ".join(sorted(names)),
            "tokens": found[-1].tokens, "mb": megabytes("self"),
            "degraded": "; ".join(sorted({reason for context in found for reason in context.degraded})),
        }  # fmt: skip


def _fact() -> Any:
    from dispatcher.memory.store.memories import MemoryType

    return MemoryType.FACT


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measured(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])) + "\n")
