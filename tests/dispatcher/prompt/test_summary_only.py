"""MEMORY_BACKEND=summary and none: chosen on purpose, so nothing of it is a fault, and the whole summary is told."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from typing import Any

from shared.release.manifest import LEXICAL
from shared.search.recall import OpenRelease
from tests.support.world import World

SAID = "The boiler stopped, its display shows F28."


def asked(world: World, backend: str, message: str) -> dict[str, Any]:
    done = world.command("hmem", "context", "9912", message, "--json", MEMORY_BACKEND=backend)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_is_switched_off_on_purpose_is_no_fault(light: World) -> None:
    light.say("t1", SAID)
    light.night()
    for backend, hits in (("summary", 0), ("none", 1)):
        found = asked(light, backend, "what does the display of the boiler show?")
        assert (found["degraded"], len(found["hits"])) == ([], hits)
        assert SAID in found["text"]
        assert [part["name"] for part in found["parts"]] == ["summary"], "what it tells is not told twice"
        doctor = json.loads(light.command("hmem", "doctor", "--json", MEMORY_BACKEND=backend, check=False).stdout)
        assert f"MEMORY_BACKEND={backend}: " in json.dumps(doctor)
    release = (light.memory_dir / "current").resolve()
    copy = light.root / "copy" / release.name
    shutil.copytree(release, copy)
    shutil.rmtree(copy / LEXICAL)
    with closing(OpenRelease(light.settings(memory_backend="summary"), copy)) as opened:
        assert SAID in (opened.summary("9912") or "")
        assert opened.text_missing is None, "nothing of the index is opened"
        opened.open_texts()
        assert opened.text_missing, "whoever asks for the texts is told"
