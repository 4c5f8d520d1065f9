"""Questions in other words than the turns', and in another language than the talk: what words alone find, vectors alone, and all together."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from redis import Redis

from scripts.benchmarks.world import describe_machine, hmem, own_world

SETS = Path(__file__).parents[2] / "tests" / "data" / "meaning"
#: How often a sentence about nearly the same as one of the turns comes, each time of somebody else.
NEAR_MISSES = 3
#: Noon of a day in 2026; a turn each ten minutes.
BEGINNING, STEP = 1_760_000_000, 600
Data = Mapping[str, Any]
Finds = Callable[[str, str], list[str]]


def read_sets(folder: Path = SETS) -> dict[str, Data]:
    """By language: 12 `turns` and the `questions` about them; `frames`, with {a} and {b}, for which `first` and `second` have what fits. The first
    `near` of them (12) are about nearly the same as the turns."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def distractors(data: Data, count: int) -> list[str]:
    """So many turns about other things, each once. Where single sentences do not suffice, two in a row."""
    chosen = random.Random(7)
    near, others = (_filled(data, frames) for frames in _divided(data))
    found = [text for texts in near for text in chosen.sample(texts, min(NEAR_MISSES, len(texts)))]
    single = [text for texts in others for text in texts]
    found += chosen.sample(single, min(len(single), (count - len(found)) // 2 + 1))
    known = set(found)
    while len(found) < count:
        text = " ".join(chosen.choice(texts) for texts in chosen.sample(others, 2))
        if text not in known:
            known.add(text)
            found.append(text)
    return found[:count]


def _divided(data: Data) -> tuple[list[str], list[str]]:
    near = data.get("near", 12)
    return data["frames"][:near], data["frames"][near:]


def _filled(data: Data, frames: list[str]) -> list[list[str]]:
    """Of each frame all that it makes."""
    return [
        [frame.replace("{a}", a).replace("{b}", b) for a in data["first"] for b in data["second"]] for frame in frames
    ]


def meaning(
    folder: Annotated[Path, typer.Option("--set", help="Folder with a file a language.", exists=True)] = SETS,
    model: Annotated[str, typer.Option(help="EMBED_MODEL.")] = "multilingual-e5-small",
    turns: Annotated[int, typer.Option(help="Other turns in each chat.")] = 2000,
    failures: Annotated[int, typer.Option(help="Show so many questions of each language that fail.")] = 0,
) -> None:
    """Twelve questions about each chat in its own language and twelve in another, among other turns: found first, and in the first five."""
    describe_machine()
    sets = read_sets(folder)
    with own_world() as environment:
        environment["EMBED_MODEL"] = model
        _load(sets, environment["REDIS_URL"], turns)
        (night,) = json.loads(hmem(environment, "hmem-night", "run", "--json"))
        typer.echo(f"{model}: night of {night['chunks']} chunks, embedding {night['seconds']['embed']:.0f} s")
        os.environ.update(environment)
        _report(sets, _ways(), failures)


def _load(sets: Mapping[str, Data], url: str, count: int) -> None:
    with Redis.from_url(url) as client, client.pipeline(transaction=False) as pipe:
        for language, data in sets.items():
            texts = [(f"{language}-other-{at}", text) for at, text in enumerate(distractors(data, count))]
            texts += [(f"{language}-{at}", text) for at, text in enumerate(data["turns"])]
            random.Random(language).shuffle(texts)
            for at, (name, text) in enumerate(texts):
                said = {"task_id": name, "chat_id": language, "role": "user", "content": text}
                pipe.set(f"hcli:memory:{name}:user", json.dumps(said | {"timestamp": BEGINNING + STEP * at}))
        pipe.execute()


def _ways() -> dict[str, Finds]:
    """Turn ids, best first, of a question to a chat: by words, by vectors, by the whole ranking."""
    from shared.config.settings import load_settings
    from shared.search.recall import OpenRelease
    from shared.search.types import Query
    from shared.vectors.registry import backend_of

    settings = load_settings()
    place = (settings.hmem_memory_dir / "current").resolve()
    both, words = OpenRelease(settings, place), OpenRelease(settings, place)
    vectors = backend_of(settings, place, both.manifest)
    both.open_vectors()
    vectors.open()
    words.without_vectors("words alone are measured")

    def of(release: OpenRelease) -> Finds:
        return lambda chat, text: [hit.chunk.turn_ids[0] for hit in release.recall(Query(chat, text, 5)).hits]

    def by_vectors(chat: str, text: str) -> list[str]:
        return [match.chunk_id.rpartition("#")[0] for match in vectors.search(text, chat, 5)]

    return {"words": of(words), "vectors": by_vectors, "all": of(both)}


def _report(sets: Mapping[str, Data], ways: Mapping[str, Finds], failures: int) -> None:
    languages, found = list(sets), defaultdict[tuple[str, str, str], list[int]](list)
    for number, chat in enumerate(languages):
        for kind, asked in (("within", chat), ("across", languages[(number + 1) % len(languages)])):
            left = failures
            for at, question in enumerate(sets[asked]["questions"]):
                for way, finds in ways.items():
                    turns = finds(chat, question)
                    rank = turns.index(f"{chat}-{at}:user") + 1 if f"{chat}-{at}:user" in turns else 0
                    found[kind, chat, way].append(rank)
                    if way == "all" and not rank and left:
                        left -= 1
                        typer.echo(f"  {chat} {kind}: {question} (wanted: {sets[chat]['turns'][at]})")
    heads = [f"{kind}, {way}" for kind in ("within", "across") for way in ways]
    typer.echo(f"{'found first / in five':<22}{''.join(f'{head:>18}' for head in heads)}")
    for name, chats in [*((chat, [chat]) for chat in languages), ("pooled", languages)]:
        cells = []
        for kind in ("within", "across"):
            for way in ways:
                ranks = [rank for chat in chats for rank in found[kind, chat, way]]
                cells.append(f"{ranks.count(1)} / {sum(map(bool, ranks))} of {len(ranks)}")
        typer.echo(f"{name:<22}{''.join(f'{cell:>18}' for cell in cells)}")
