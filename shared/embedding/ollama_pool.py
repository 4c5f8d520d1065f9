"""Several Ollama servers as one embedder: by night side by side, by day the first that answers in time.

Each server has one request in flight and takes the next texts when it is done, so a fast one makes more vectors; the last ones are handed out
in smaller portions, so that none waits long for the slowest. A server is used after it has proven itself: the digest and the probes' vectors
are those of the first server in the list that could (probes.py). One that fails is left out, with a sentence, and its texts go to
another: later it is tried again if it was only away. A text is refused by a server that embeds plain sentences, or not at all (ollama.py).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import structlog

from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.embedding.ollama import BATCH_TEXTS, OllamaEmbedder
from shared.embedding.ollama_server import OllamaError
from shared.embedding.probes import LEAST_COSINE, least_cosine, probe_vectors, prove
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

log = structlog.get_logger()

Say = Callable[[str], None]

#: Requests for each server in one call of `embed_documents`: the more, the less the slowest server's last one counts.
REQUESTS_AT_ONCE = 8
#: The smallest portion of texts.
LEAST_TEXTS = 8
#: Seconds until a server that was away is tried again for stored texts, and until one that failed is asked questions again.
AWAY_SECONDS, SKIPPED_SECONDS = 300.0, 30.0


@dataclass
class _Member:
    """A server, and what is known of it. Times are those of a monotonic clock."""

    embedder: OllamaEmbedder
    proven: bool = False
    busy: bool = False  # with stored texts
    not_before: float = 0.0  # for stored texts
    no_questions_before: float = 0.0
    reason: str = ""
    said: bool = False  # that it is left out


@dataclass
class _Work:
    """The texts of one call that have no vectors yet. Guarded by the pool's lock."""

    texts: Sequence[str]
    done: DocumentVectors
    begin: int = 0
    given_back: list[range] = field(default_factory=list)
    finished: int = 0
    error: BaseException | None = None

    @property
    def waiting(self) -> bool:
        return self.begin < len(self.texts) or bool(self.given_back)

    def take(self, servers: int) -> range | None:
        if self.given_back:
            return self.given_back.pop()
        left = len(self.texts) - self.begin
        if not left:
            return None
        count = min(left, BATCH_TEXTS, max(LEAST_TEXTS, left // (2 * servers)))
        self.begin += count
        return range(self.begin - count, self.begin)

    def put(self, rows: range, answer: DocumentVectors) -> None:
        self.done.vectors[rows.start : rows.stop] = answer.vectors
        self.done.refused.update({rows.start + row: reason for row, reason in answer.refused.items()})
        self.finished += len(rows)


class OllamaPool:
    def __init__(self, embedders: Sequence[OllamaEmbedder], hedge_seconds: float, say: Say | None = None) -> None:
        """`hedge_seconds`: a question that has no answer after them is sent to the next server, too. `say` gets the sentence about a server that is
        left out or used again."""
        self._members = [_Member(embedder) for embedder in embedders]
        self._hedge_seconds, self._say = hedge_seconds, say
        self._changed = threading.Condition()
        self._choosing = threading.Lock()
        self._identity: EmbeddingIdentity | None = None
        self._closed = False

    @property
    def texts_at_once(self) -> int:
        return REQUESTS_AT_ONCE * BATCH_TEXTS * len(self._members)

    @property
    def identity(self) -> EmbeddingIdentity:
        """That of the first server that is the expected model; EmbeddingError if there is none."""
        return replace(self._reference(), probes=())

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        dimensions = self._reference().dimensions
        work = _Work(texts, DocumentVectors(np.zeros((len(texts), dimensions), dtype=np.float32)))
        with self._changed:
            while work.finished < len(texts):
                if work.waiting:
                    self._start(work)
                if not any(member.busy for member in self._members):
                    raise self._none_left()
                self._changed.wait()
                if work.error is not None:
                    raise work.error
        return work.done

    def embed_query(self, text: str) -> Vectors:
        members = self._for_questions()
        if len(members) == 1:
            return self._asked(members[0], text)
        asked: dict[Future[Vectors], _Member] = {}
        for member in members:
            asked[self._begin(member, text)] = member
            last = member is members[-1]
            while asked:
                done, _ = wait(asked, None if last else self._hedge_seconds, FIRST_COMPLETED)
                if good := [one for one in asked if one in done and one.exception() is None]:
                    self._skip_slower(good[0], asked)
                    return good[0].result()
                asked = {one: whose for one, whose in asked.items() if one not in done}
                if not last:  # too slow, or failed: the next one is asked, too
                    break
        raise self._none_left()

    def close(self) -> None:
        self._closed = True
        for member in self._members:
            member.embedder.close()

    def _reference(self) -> EmbeddingIdentity:
        """Identity and probes with which all servers are compared."""
        with self._choosing:
            for member in self._members:
                if self._identity is None and time.monotonic() >= member.not_before:
                    try:
                        identity = member.embedder.identity_now()
                        self._identity = replace(identity, probes=prove(member.embedder))
                        member.proven = True
                    except EmbeddingError as error:
                        self._leave_out(member, error)
            if self._identity is None:
                raise self._none_left()
            return self._identity

    def _prove(self, member: _Member) -> None:
        """EmbeddingError unless its model is that of the first. The shipped model is left alone: a process may end while this runs in a thread."""
        reference = self._reference()
        if member.embedder.identity_now().digest != reference.digest:
            raise EmbeddingError("it has another version of the model than the first server")
        probes = np.asarray(reference.probes, dtype=np.float32)
        cosine = least_cosine(probe_vectors(member.embedder, len(probes)), probes)
        if cosine < LEAST_COSINE:
            raise EmbeddingError(
                f"its vectors are not those of the first server: cosine {cosine:.2f}, at least {LEAST_COSINE} is needed"
            )
        member.proven = True
        self._say_used_again(member)

    # Stored texts

    def _start(self, work: _Work) -> None:
        """A thread for each server that may work and does not."""
        for member in self._members:
            if not member.busy and time.monotonic() >= member.not_before:
                member.busy = True
                threading.Thread(target=self._work, args=(member, work), daemon=True).start()

    def _work(self, member: _Member, work: _Work) -> None:
        """Takes texts until there are none, or the server fails."""
        rows: range | None = None
        try:
            if not member.proven:
                self._prove(member)
            while (rows := self._take(work)) is not None:
                answer = member.embedder.embed_documents(work.texts[rows.start : rows.stop])
                with self._changed:
                    work.put(rows, answer)
        except EmbeddingError as error:
            self._leave_out(member, error)
        except BaseException as error:  # noqa: BLE001 - it is raised where the work was asked for
            work.error = error
        finally:
            with self._changed:
                member.busy = False
                if rows is not None:
                    work.given_back.append(rows)
                self._changed.notify_all()

    def _take(self, work: _Work) -> range | None:
        with self._changed:
            return work.take(len(self._members))

    # Questions

    def _for_questions(self) -> list[_Member]:
        """The servers to ask, in order: those that are proven; if there are none, those that can be."""
        now = time.monotonic()
        awake = [member for member in self._members if now >= member.no_questions_before]
        if proven := [member for member in awake if member.proven]:
            return proven
        for member in awake:
            try:
                self._prove(member)
            except EmbeddingError as error:
                self._skip(member, error)
            else:
                return [member]
        raise self._none_left()

    def _asked(self, member: _Member, text: str) -> Vectors:
        try:
            return member.embedder.embed_query(text)
        except EmbeddingError as error:
            self._skip(member, error)
            raise

    def _begin(self, member: _Member, text: str) -> Future[Vectors]:
        """Asks in a thread of its own, which no one waits for at the end of the process."""
        answer: Future[Vectors] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._asked(member, text))
            except BaseException as error:  # noqa: BLE001 - whoever waits for the answer gets it
                answer.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        return answer

    def _skip_slower(self, winner: Future[Vectors], asked: dict[Future[Vectors], _Member]) -> None:
        """Those that were asked before and have not answered."""
        for one, member in asked.items():
            if one is winner:
                return
            self._skip(member, EmbeddingError("another server answered before it"))

    # Servers that fail

    def _skip(self, member: _Member, error: EmbeddingError) -> None:
        if time.monotonic() >= member.no_questions_before:
            member.no_questions_before, member.reason = time.monotonic() + SKIPPED_SECONDS, _reason(error)
            log.warning("an Ollama server is skipped for a while", server=member.embedder.url, reason=member.reason)

    def _leave_out(self, member: _Member, error: EmbeddingError) -> None:
        if self._closed:
            return
        away = _is_away(error)
        member.proven, member.reason = False, _reason(error)
        member.not_before = time.monotonic() + AWAY_SECONDS if away else math.inf
        member.no_questions_before = time.monotonic() + SKIPPED_SECONDS
        if not member.said:
            member.said = True
            log.warning("an Ollama server is left out", server=member.embedder.url, reason=member.reason)
            later = f"; it is tried again after {AWAY_SECONDS / 60:.0f} minutes" if away else ""
            self._tell(f"Ollama at {member.embedder.url} is left out ({member.reason}){later}.")

    def _say_used_again(self, member: _Member) -> None:
        if member.said:
            member.said = False
            log.info("an Ollama server is used again", server=member.embedder.url)
            self._tell(f"Ollama at {member.embedder.url} is used again.")

    def _tell(self, sentence: str) -> None:
        if self._say is not None:
            self._say(sentence)

    def _none_left(self) -> EmbeddingError:
        reasons = "; ".join(f"{member.embedder.url}: {member.reason or 'not asked'}" for member in self._members)
        return EmbeddingError(f"No Ollama server can be used ({reasons}). Start one (ollama serve), or set OLLAMA_URL.")


def _reason(error: EmbeddingError) -> str:
    return error.reason if isinstance(error, OllamaError) else str(error).rstrip(".")


def _is_away(error: EmbeddingError) -> bool:
    """Whether the same server may be right later: it did not answer, or failed. A missing model, or vectors of another one, stay."""
    cause = error if isinstance(error, OllamaError) else error.__cause__
    return isinstance(cause, OllamaError) and cause.passing and not isinstance(cause.__cause__, ValueError)
