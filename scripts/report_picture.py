"""Draw the picture of the morning report again: .venv/bin/python -m scripts.report_picture [FOLDER]

docs/images/report.png   what the owner gets in the morning, from made-up nights
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from nightly.night.report.picture import picture

IMAGES = Path(__file__).parent.parent / "docs" / "images"
#: When the first made-up night ended, in seconds since 1970.
FIRST = 1_777_602_240.0
DAY = 86_400.0


def made_up_nights(count: int = 14, seed: int = 7) -> list[dict[str, Any]]:
    """Plausible nights of one household, the tenth of which failed; the same arguments always give the same ones."""
    random = Random(seed)
    nights, turns, free = [], 18_240, 61 << 30
    for at in range(count):
        failed, weekend = at == 9, at % 7 in (1, 2)
        new = 0 if failed else random.randrange(240, 420) if weekend else random.randrange(90, 190)
        turns, free = turns + new, free - random.randrange(90 << 20, 160 << 20)
        nights.append(_night(random, 398 + at, FIRST + at * DAY, new, turns, free, failed=failed))
    return nights


def _night(random: Random, run: int, at: float, new: int, turns: int, free: int, *, failed: bool) -> dict[str, Any]:
    steps = {
        "export": 0.4, "archive": 2.1, "chunk": 1.2, "note": 0.01, "embed": 20 + new * 0.31, "build": 6.5, "summarise": 12 + new * 0.09,
        "publish": 14.0, "flush": 1.1, "restart": 0.01,
    }  # fmt: skip
    done = {name: round(seconds * random.uniform(0.8, 1.3), 2) for name, seconds in steps.items()}
    if failed:
        done = {name: done[name] for name in ("export", "archive", "chunk", "note")}
    asked, lost = 100, random.choice((0, 0, 0, 1, 1, 2))
    return {
        "run": run, "finished_at": at + random.randrange(400), "seconds": round(sum(done.values()), 2), "steps": done,
        "exported": new + 1, "new": new, "new_versions": 0, "already_archived": 1, "quarantined": 0, "deleted": 0 if failed else new + 1,
        "chats": 0 if failed else min(new, random.randrange(4, 12)), "turns": turns, "chunks": round(turns * 1.06), "refused_tombstones": 0,
        "gate": None if failed else {"asked": asked, "found": asked - lost}, "moved": None if failed else new * 5200 + 900_000,
        "release_bytes": None if failed else 31_000_000 + turns * 2900, "free_bytes": free, "mirror": "ok",
        "failed": {"step": "embed", "sentence": "Ollama does not answer. Start it, then run hmem-night run."} if failed else None,
    }  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.png").write_bytes(picture(made_up_nights(), ZoneInfo("Europe/Berlin")))


if __name__ == "__main__":
    main()
