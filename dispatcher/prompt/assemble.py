"""The context of one message: the release, the day, and what was said just now, put together. What fits is decided in context.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from dispatcher.memory.relevance import faint
from dispatcher.prompt.budget import Context, Said, compose, hits_for
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.ranking.injection import Decision, decide
from shared.search.choosing import chosen
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns, Hit, Query, Recalled

if TYPE_CHECKING:
    from dispatcher.memory.day import Day, DayContext
    from dispatcher.memory.tombstones import Forgotten


def assemble(
    release: OpenRelease | None,
    chat_id: str,
    message: str,
    settings: Settings,
    recent: Sequence[Said] | None = None,
    why_none: str | None = None,
    day: Day | None = None,
    session: str | None = None,
    *,
    count: bool = True,
) -> Context:
    """The context of one message within MEMORY_TOKENS.

    `recent` is None where a session carries the conversation: then `session` is its id. `why_none` is why there is no release, if it is not that
    none was made; `day` is None where nothing of the day is wanted; `count`: memories that are shown count as accessed.
    """
    if settings.memory_tokens <= 0:
        return Context("", degraded=["MEMORY_TOKENS=0"])
    if release and day and not settings.without_vectors:
        release.expect(message)  # while the day is read
    today = day.context(chat_id, message, session, count=count) if day else None
    if today and today.unproven:
        return Context("", degraded=[f"no memory at all: {today.unproven}"])
    recalled = _recalled(release, chat_id, message, settings, recent or (), day, today)
    if release is None:
        recalled = replace(recalled, degraded=[why_none or "there is no release yet", *recalled.degraded])
    return of_release(
        release,
        chat_id,
        message,
        recalled,
        settings,
        settings.memory_tokens,
        recent,
        today,
        forgotten=day.forgotten if day else None,
        day_family=day.embedder.family if day else None,
    )


def _recalled(
    release: OpenRelease | None,
    chat_id: str,
    message: str,
    settings: Settings,
    recent: Sequence[Said],
    day: Day | None,
    today: DayContext | None,
) -> Recalled:
    """Hits of release and day; what stands in the conversation so far is not told twice."""
    if settings.memory_backend == "summary":
        return Recalled()
    k, deadline = hits_for(settings.memory_tokens), settings.memory_deadline_ms / 1000
    if day is None or today is None:
        return release.recall(Query(chat_id, message, k, deadline)) if release else Recalled()
    told = {("user" if said.role == "user" else "asst", said.timestamp) for said in recent}
    chunks = [turn.chunk for turn in today.items.turns] if today.items and told else []
    known = today.known | {one for chunk in chunks if (chunk.role, chunk.started_at) in told for one in chunk.turn_ids}
    hidden = HiddenTurns(today.hidden, today.hidden_before)
    return day.search(release, Query(chat_id, message, k, deadline, day=today.items, hidden=hidden, known=known))


def of_release(
    release: OpenRelease | None,
    chat_id: str,
    message: str,
    recalled: Recalled,
    settings: Settings,
    budget: int,
    recent: Sequence[Said] | None = None,
    today: DayContext | None = None,
    *,
    forgotten: Forgotten | None = None,
    day_family: str | None = None,
) -> Context:
    """The context from what was recalled for the message, within a budget of tokens; the chat's summary is read here.

    `day_family` is the model that the day's vectors are of, where there is no release.
    """
    summary, fault = _summary(release, chat_id, settings, forgotten)
    family = _family(release) if release else day_family
    told, decision = _told(recalled, message, family, settings)
    unknown = _unknown(release, chat_id, today, settings)
    context = compose(
        replace(recalled, degraded=recalled.degraded + fault + (today.degraded if today else [])),
        summary.strip(),
        budget=budget,
        zone=settings.timezone,
        run=release.run if release else None,
        recent=recent,
        facts=today.facts if today else "",
        earlier=today.earlier if today else "",
        relevant=today.relevant if today else "",
        why_nothing=unknown or (decision.why if decision and not decision.inject else None),
        told=told,
        why=decision.why if decision else None,
    )
    return replace(
        context,
        nothing_plain=_plainly(settings) if unknown else (decision.plain or None) if decision else None,
        by_time=bool(decision and decision.spans),
        summary_at=_made_at(release, settings) if release else None,
    )


def _told(
    recalled: Recalled, message: str, family: str | None, settings: Settings
) -> tuple[list[Hit], Decision | None]:
    """The hits that are worth their place, best first, and what was decided; without evidence nothing is."""
    decision = decide(recalled.evidence, family, settings.timezone) if recalled.evidence else None
    hits = recalled.hits
    if recalled.evidence and decision and decision.inject:
        hits = chosen(message, hits, recalled.evidence, decision)
        if decision.spans or decision.blind:
            return hits, decision
    return [hit for hit in hits if not faint(hit.scores.get("cosine"), hit.lexical, family)], decision


def _summary(
    release: OpenRelease | None, chat_id: str, settings: Settings, forgotten: Forgotten | None
) -> tuple[str, list[str]]:
    """The summary of last night, and why there is none; one that was written before something was forgotten is not told."""
    if release is None or not settings.memory_summary:
        return "", []
    try:
        if forgotten and forgotten.not_applied(chat_id, release.manifest.tombstones):
            return "", ["no summary until the next night: something was forgotten after it was written"]
        return release.summary(chat_id) or "", []
    except (HmemError, OSError, UnicodeDecodeError) as error:
        return "", [f"no summary: {error}"]


def _unknown(release: OpenRelease | None, chat_id: str, today: DayContext | None, settings: Settings) -> str | None:
    """Why nothing is found where nothing is looked up, or of a chat that neither the release nor the day has."""
    if settings.memory_backend == "summary":
        return "MEMORY_BACKEND=summary looks nothing up"
    if release is None or release.manifest.chunks_per_chat.get(chat_id) or (today and today.items):
        return None
    return f"release {release.run} holds nothing that was said in this chat"


def _plainly(settings: Settings) -> str:
    """The same for the person in the chat."""
    return "I look nothing up here" if settings.memory_backend == "summary" else "nothing was said here before"


def _made_at(release: OpenRelease, settings: Settings) -> str | None:
    """When its summaries were made: ISO 8601 in the zone."""
    if not release.manifest.created_at:
        return None
    return (
        datetime.fromisoformat(release.manifest.created_at).astimezone(settings.timezone).isoformat(timespec="seconds")
    )


def _family(release: OpenRelease) -> str | None:
    """The model that its vectors are of."""
    identity = release.manifest.embedding
    return identity.family if identity else None
