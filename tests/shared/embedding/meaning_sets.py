"""Turns in ten languages, questions about them in other words, and turns about nearly the same (tests/data/meaning)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SETS = Path(__file__).parents[2] / "data" / "meaning"
#: How often a sentence about nearly the same as one of the turns comes, each time of somebody else.
NEAR_MISSES = 3
Data = Mapping[str, Any]


def read_sets() -> dict[str, Data]:
    """By language: 12 `turns` and the `questions` about them; `frames`, with {a} and {b}, for which `first` and `second` have what fits. The first
    `near` of them (12) are about nearly the same as the turns."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(SETS.glob("*.json"))}


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
