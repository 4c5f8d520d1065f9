"""The paths of this feature's script: an answer that is still wanted, in its place or another, and one that is not."""

from __future__ import annotations

from shared.wire import keys
from tests.support.redis.scripts import ScriptRun

SCRIPT, GIVEN = "dispatcher/features/dream/answered", ("name", "answer")
ASKED = (f"HSET {keys.ASKED} name request",)
DREAM = (f"HSET {keys.DREAMS} name request",)
RUNS = [
    ScriptRun(SCRIPT, "dispatcher", GIVEN, (), (keys.ASKED, keys.WRITTEN)),
    ScriptRun(SCRIPT, "dispatcher", GIVEN, ASKED, (keys.ASKED, keys.WRITTEN)),
    ScriptRun(SCRIPT, "dispatcher", GIVEN, DREAM, (keys.DREAMS, keys.DREAMS)),
]
