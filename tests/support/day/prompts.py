"""Prompts of a test's own hits, summary and conversation."""

from __future__ import annotations

import re
from contextlib import closing, nullcontext
from zoneinfo import ZoneInfo

from hypothesis import settings
from hypothesis import strategies as st

from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.read_for_prompt import PromptRequest
from dispatcher.prompt.assemble import assemble
from dispatcher.prompt.budget import PromptInput, compose
from dispatcher.prompt.context import Context
from shared.config.settings import Settings
from shared.search.recall import OpenRelease
from shared.search.types import Hit, Recalled
from shared.turns.chunk import Chunk
from shared.turns.records import ROLES, Turn

PROPERTY = settings(max_examples=25)
UTC = ZoneInfo("UTC")
NOW = 1_707_500_000.0
SUMMARY = "\n".join(f"- anna: line {n} of the summary says something" for n in range(200))
RECORD = re.compile(r'<record id="([0-9a-f]{16})">\n(.*?)\n</record id="\1">', re.DOTALL)


def hit(text: str, at: float = NOW, speaker: str = "anna", question: str | None = None, score: float = 0.5) -> Hit:
    name = f"t{at!r}:user"
    chunk = Chunk(f"{name}#1", "9912", f"t{at!r}", (name,), "user", speaker, text, at, at)
    return Hit(chunk, score, question)


def composed(hits: list[Hit], summary: str = "", budget: int = 1500, zone: ZoneInfo = UTC) -> Context:
    return compose(PromptInput(Recalled(hits, ["why"], 1.5), summary, budget=budget, zone=zone, release_run=7))


def assembled(request: PromptRequest, settings: Settings, release: OpenRelease | None) -> Context:
    """The context of a message from the release alone: a dispatcher's with DAY_STORE_URL=none."""
    settings = settings.model_copy(update={"day_store_url": "none"})
    with closing(DayMemory(settings, lambda: nullcontext(release))) as day:
        return assemble(request, settings, release, day)


odd_text = st.text(max_size=300) | st.text("ab \n\r\u2028\x85\x0b# <>/-:`", max_size=300)


def said(count: int) -> list[Turn]:
    return [Turn("", ROLES[n % 2], "", f"turn {n}\nof the talk", NOW + n) for n in range(count)]
