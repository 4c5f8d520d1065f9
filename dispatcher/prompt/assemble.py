"""The context of one message, put together from the release, the day and the conversation so far. budget.py decides what fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from dispatcher.memory.day.read_for_prompt import DayContext, PromptRequest
from dispatcher.prompt.budget import PromptInput, compose, hits_for, is_verbatim, without_sentences
from dispatcher.prompt.context import MISSED, Context
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.ranking.injection import WEAK, Decision, decide
from shared.search.choosing import chosen
from shared.search.recall import OpenRelease
from shared.search.types import Hit, Query, Recalled
from shared.text.translations import later

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.tombstones import Forgotten
    from shared.turns.records import Tombstone


def assemble(
    request: PromptRequest,
    settings: Settings,
    release: OpenRelease | None,
    day: DayMemory,
    no_release_reason: str | None = None,
) -> Context:
    """The context of one message within MEMORY_TOKENS. `no_release_reason` is why there is no release, None if none was built yet."""
    if settings.memory_tokens <= 0:
        return Context("", degraded=["MEMORY_TOKENS=0"])
    if release and not settings.without_vectors:
        release.expect(request.message)  # in parallel with reading the day
    today = day.context(request, settings)
    if today.unproven:
        return Context("", degraded=[f"no memory at all: {today.unproven}"])
    sources = PromptSources(request, settings, release, day, today)
    recalled = sources.recall(hits_for(settings.memory_tokens))
    if release is None:
        recalled = replace(recalled, degraded=[no_release_reason or "there is no release yet", *recalled.degraded])
    return compose(sources.prompt_input(recalled))


@dataclass(frozen=True)
class PromptSources:
    """What the context of a message is put together from; `release` is None if there is none."""

    request: PromptRequest
    settings: Settings
    release: OpenRelease | None
    day: DayMemory
    today: DayContext

    def recall(self, most: int) -> Recalled:
        """At most so many hits of release and day, without the turns of the conversation so far."""
        request, settings, today = self.request, self.settings, self.today
        if settings.memory_backend == "summary":
            return Recalled()
        recent = {(turn.role, turn.timestamp) for turn in request.recent or ()}
        chunks = [turn.chunk for turn in today.items.turns] if today.items and recent else []
        in_prompt = {one for chunk in chunks if (chunk.role, chunk.started_at) in recent for one in chunk.turn_ids}
        query = Query(
            request.chat_id,
            request.message,
            most,
            settings.memory_deadline_ms / 1000,
            now=request.now,
            day=today.items,
            hidden=today.hidden,
            known=today.known | in_prompt,
            asker=("user", request.name or "", request.user_id) if request.name or request.user_id else None,
            enough=(lambda found: most if decide(found, self._family, settings.timezone).inject else MISSED)
            if request.count_access
            else None,
        )
        return self.day.search(self.release, query)

    def prompt_input(self, recalled: Recalled) -> PromptInput:
        """Everything for the context of the message, with MEMORY_TOKENS as its budget; the chat's summary is read here."""
        request, settings, release, today = self.request, self.settings, self.release, self.today
        summary, failed = "", list[str]()
        if release is not None and settings.memory_summary and self._wants_summary(recalled):
            summary, failed = summary_of(release, request.chat_id, self.day.forgotten)
        hits, decision = self._worth_injecting(recalled)
        if decision and decision.inject and not hits:
            why = f"{decision.why}, but nothing found is worth its place"
            decision = replace(decision, inject=False, why=why, plain=WEAK)
        reason, plain = self._nothing_to_search()
        if decision and not reason:
            reason, plain = None if decision.inject else decision.why, decision.plain or None
        return PromptInput(
            replace(recalled, degraded=recalled.degraded + failed + today.degraded),
            summary.strip(),
            budget=settings.memory_tokens,
            zone=settings.timezone,
            release_run=release.run if release else None,
            hits=hits,
            no_recall_reason=reason,
            no_recall_plain=plain,
            decision_reason=decision.why if decision else None,
            by_time=bool(decision and decision.spans),
            searched=settings.memory_backend != "summary",
            message=request.message,
            recent=request.recent,
            profile=today.profile,
            earlier=today.earlier,
            facts=today.facts,
            summary_at=self._summarised_at,
        )

    def _wants_summary(self, recalled: Recalled) -> bool:
        """Where a session begins, where it is asked for, and where nothing better can be looked up."""
        if self.settings.memory_backend == "summary" or recalled.degraded:
            return True
        # Who resumes sessions gets the conversation so far where one begins, else with each message.
        recent = self.request.recent
        begins = recent is not None and (self.settings.session_mode == "resume" or not recent)
        asked = recalled.evidence.message if recalled.evidence else None
        return begins or bool(asked and asked.asks_what_was_said and not asked.telling and not asked.spans)

    def _worth_injecting(self, recalled: Recalled) -> tuple[list[Hit], Decision | None]:
        """The hits that are worth injecting, best first, and the decision; None without evidence."""
        if recalled.evidence is None:
            return recalled.hits, None
        decision = decide(recalled.evidence, self._family, self.settings.timezone)
        if not decision.inject:
            return recalled.hits, decision
        items, from_now = recalled.evidence.items, recalled.evidence.message.times.from_now
        message, family = self.request.message, self._family
        return chosen(message, recalled.hits, decision, family, items, from_now=from_now), decision

    def _nothing_to_search(self) -> tuple[str | None, str | None]:
        """(why nothing can be found: nothing is searched, or neither the release nor the day has the chat; the same for the person in the chat)."""
        if self.settings.memory_backend == "summary":
            return "MEMORY_BACKEND=summary searches nothing", later("I do not search for them here")
        if self.release is None or self.release.has(self.request.chat_id) or self.today.items:
            return None, None
        return f"release {self.release.run} has no turns of this chat", later("there are no earlier messages here")

    @property
    def _family(self) -> str | None:
        """The model family of the vectors."""
        if self.release is None:
            return self.today.family
        identity = self.release.manifest.embedding
        return identity.family if identity else None

    @property
    def _summarised_at(self) -> str | None:
        """When the release's summaries were written: ISO 8601 in the zone."""
        if self.release is None or not self.release.manifest.created_at:
            return None
        written = datetime.fromisoformat(self.release.manifest.created_at)
        return written.astimezone(self.settings.timezone).isoformat(timespec="seconds")


def summary_of(release: OpenRelease, chat_id: str, forgotten: Forgotten) -> tuple[str, list[str]]:
    """Last night's summary, or why there is none. Without the sentences of turns that were forgotten since it was written; none at all where those
    cannot be told.

    The tombstones are read again, since something may have been forgotten during the search.
    """
    try:
        summary, since = release.summary(chat_id) or "", forgotten.not_applied(chat_id, release.manifest.tombstones)
        return _without_forgotten(since, summary, release, chat_id) if since else (summary, [])
    except (HmemError, OSError, UnicodeDecodeError) as error:
        return "", [f"no summary: {error}"]


def _without_forgotten(
    since: Sequence[Tombstone], summary: str, release: OpenRelease, chat_id: str
) -> tuple[str, list[str]]:
    """The summary without the sentences of these turns, or why there is none."""
    if not is_verbatim(summary) or not all(stone.named for stone in since):
        return "", ["no summary until the next night: something was forgotten since it was written"]
    named = sorted({turn for stone in since for turn in stone.named})
    return without_sentences(summary, [one.content for one in release.turns(chat_id, named).values()]), []
