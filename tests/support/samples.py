"""Small values that tests of several modules use."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from shared.embedding.local.embedder import MODEL_DIR
from shared.ranking.scoring import Features, Neighbours, Posting, Sides
from shared.turns.chunk import Chunk


def features(lengths: list[float], starts: list[float] | None = None) -> Features:
    n = len(lengths)
    zeros, size = np.zeros(n, np.float32), np.array(lengths, np.float32)
    near = Neighbours(size, np.array(starts or [60.0 * i for i in range(n)]))
    tokens, sides = (size / 5).astype(np.float32), Sides(np.zeros(n, bool), size)
    return Features(tokens=tokens, lengths=size, asks=zeros, timed=zeros, neighbours=near, sides=sides)


def posting(*counts: int) -> Posting:
    ordinals = np.flatnonzero(counts).astype(np.int32)
    return ordinals, np.array(counts, np.uint16)[ordinals]


NOW = 1_707_500_000.0


def chunk(text: str, at: float = NOW, speaker: str = "anna", number: int = 1) -> Chunk:
    turn_id = f"t{number}:user"
    return Chunk(f"{turn_id}#1", "9912", f"t{number}", (turn_id,), "user", speaker, text, at, at)


LONG = "a chat id of 200 characters, ".ljust(200, "Ж")


#: Chat ids that no directory should be named after as they are.
ODD_CHATS = ("*", "../up", "~", "Моя группа", LONG, "UPPER", "_archive", "index.json")


REFERENCE: dict[str, Any] = json.loads((MODEL_DIR / "reference.json").read_text(encoding="utf-8"))


PAIRS = list(zip(REFERENCE["texts"], REFERENCE["float32_vectors"], strict=True))
