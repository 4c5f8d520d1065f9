"""Restore drill: an empty host is given the archive directory and nothing else, and makes the same memory of it.

No Redis content, no cache, no release, no model server: the same chunk ids and texts, the same vectors, the same summaries (also those that
a model wrote), and to a set of questions the same answers in the same order with the same scores.
"""

from __future__ import annotations

import shutil
from typing import Any

from shared.release.manifest import LEXICAL, verify
from shared.search.lexical import LexicalIndex
from shared.search.recall import OpenRelease
from shared.search.types import Hit, Query
from tests.chaos.checks.points import undisturbed
from tests.chaos.harness.oracle import Shadow, judge, vector_rows
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.machine import free_port
from tests.support.night.indexes.chat_tables import accounts, summaries
from tests.support.world import World

CHATS = ("9912", "-100123", "Team Blue")
WORDS = ("heron", "boiler", "ferry", "invoice", "garden", "dentist", "puppy", "bridge")
#: Decimals of a score that must agree.
DECIMALS = 5


@chaos("restore", "from the archive alone on an empty host: the same ids, vectors, summaries and answers")
def run(bench: Bench) -> Outcome:
    world, shadow, outcome = bench.world("original"), Shadow(), Outcome(rounds=1, faults=1)
    with OllamaApi({"llama3.2:latest": DIGEST}) as api:
        world.environment |= {"SUMMARY_MODEL": "llama3.2", "OLLAMA_URL": api.url}
        for day in range(3):
            _talk(world, shadow, day, min(10 + bench.rounds, 200))
            undisturbed(world)
    outcome.add(judge(world, shadow, at_rest=True, vectors=True))
    empty = bench.world("empty")
    empty.environment |= {"SUMMARY_MODEL": "llama3.2", "OLLAMA_URL": f"http://127.0.0.1:{free_port()}"}
    shutil.copytree(world.night_dir / "archive", empty.night_dir / "archive")
    undisturbed(empty)
    questions = [f"{word} {other}?" for word in WORDS for other in ("number", WORDS[0])]
    before, after = (memory_of(host, questions) for host in (world, empty))
    for part, expected in before.items():
        if after[part] != expected:
            outcome.found("lost", f"{part} differ after the restore: {_first_difference(expected, after[part])}")
    outcome.add(judge(empty, shadow, at_rest=True, vectors=True))
    counts = ", ".join(f"{len(before[part])} {part}" for part in ("texts", "vectors", "answers"))
    outcome.notes.append(f"{counts} compared")
    return outcome


def _talk(world: World, shadow: Shadow, day: int, count: int) -> None:
    """New turns, corrections of old ones, and something that cannot be read."""
    for number in range(count):
        word, chat = WORDS[number % len(WORDS)], CHATS[number % len(CHATS)]
        moment = 1_707_500_000.0 + 86_400 * day + number
        where = WORDS[(number + day) % len(WORDS)]
        said = f"day {day}: the {word} number{day}a{number}x was seen near the {where}. " * (1 + number % 4)
        answer = f"Noted: {word}, number{day}a{number}y."
        shadow.say(world, f"d{day}n{number}", said, chat_id=chat, timestamp=moment)
        shadow.say(world, f"d{day}n{number}", answer, chat_id=chat, role="asst", timestamp=moment + 0.5)
    if day:
        corrected = f"no, the {WORDS[0]} number0a0z was elsewhere on day {day}"
        shadow.say(world, "d0n0", corrected, chat_id=CHATS[0], timestamp=1_707_400_000.0)
    shadow.put(world, b"hcli:memory:unreadable%d:user" % day, b'{"chat_id": "9912", "role"')


def memory_of(world: World, questions: list[str]) -> dict[str, dict[Any, Any]]:
    """All that a reader can get from the release in use."""
    path = (world.memory_dir / "current").resolve()
    verify(path)
    index = LexicalIndex(path / LEXICAL)
    texts = {chunk.chunk_id: (chunk.chat_id, chunk.turn_ids, chunk.text) for chunk in index.all_chunks()}
    index.close()
    return {
        "texts": texts,
        "vectors": {chunk_id: vector for _, chunk_id, vector in vector_rows(world, path)},
        "summaries": summaries(path),
        "answers": _answers(world, questions),
        "counts": accounts(path),
    }


def _answers(world: World, questions: list[str]) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    release = OpenRelease(world.settings(), (world.memory_dir / "current").resolve())
    release.open_vectors()
    if release.vectors_missing:
        raise AssertionError(f"no vectors to compare: {release.vectors_missing}")
    found = {}
    for chat in CHATS:
        for question in questions:
            hits = release.recall(Query(chat, question, 10)).hits
            found[chat, question] = [_told(hit) for hit in hits]
    release.close()
    return found


def _told(hit: Hit) -> tuple[Any, ...]:
    scores = (None if score is None else round(score, DECIMALS) for score in (hit.rank, hit.lexical, hit.vector))
    return hit.chunk.chunk_id, *scores, hit.question


def _first_difference(expected: dict[Any, Any], found: dict[Any, Any]) -> str:
    for key in sorted({*expected, *found}, key=str):
        if expected.get(key) != found.get(key):
            return f"{key}: {expected.get(key)!r:.300} became {found.get(key)!r:.300}"
    return "nothing"
