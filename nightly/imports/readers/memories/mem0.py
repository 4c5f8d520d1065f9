"""Memories of Mem0, as JSON: what `get_all()` returns, what its platform exports, or the `memories.json` in OpenMemory's backup (also the ZIP).

    [{"id", "memory", "user_id", "agent_id", "metadata", "created_at", "updated_at"}, ...]      or the same in {"results": [...]}
    {"memories": [{"id", "content", "state", "created_at", ...}, ...]}                          OpenMemory's backup

docs.mem0.ai/api-reference/memory/get-memory, docs.mem0.ai/cookbooks/essentials/exporting-memories,
github.com/mem0ai/mem0 (openmemory/api/app/routers/backup.py). The fields of a platform's export follow a schema that its owner chose: a memory is
read from `memory`, `content` or `text`.

Times are ISO 8601 (UTC where they name no zone): of the last change, or else of the beginning, or of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from nightly.imports.candidates import ReadCandidate
from nightly.imports.containers.members import Member
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.formats import Source
from nightly.imports.json_stream import JsonStream
from nightly.imports.readers.memories.facts import ImportedFacts
from nightly.imports.recognition import outlines
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused
from shared.wire.ids import moment_of

_LISTS = ("results", "memories")
_WORDS = ("memory", "content", "text")
#: What stands beside a memory, and hardly beside that of a computer.
_BESIDE = ("user_id", "created_at")


def read(path: Path, source: Source) -> Iterator[ReadCandidate]:
    """Option `only`: the user whose memories are wanted; InvalidInput if there are several and none is named."""
    facts, users, only = ImportedFacts("mem0", "Mem0", source.wanted), set[str](), source.options.get("only")

    def memories(member: Member) -> Iterator[ReadCandidate]:
        for number, value, done in _memories(member):
            _one_user(export, value, only, users)
            yield _read(value, member, facts, only, done, f": memory {number}")

    with opened_export(path, source.zone) as export:
        yield from export.each(export.named("*.json"), memories)


def recognise(export: Export) -> str | None:
    for where, paths in outlines(export, "*.json"):
        if any({f"{at}.memory", f"{at}.{name}"} <= paths for at in ("[]", "results.[]") for name in _BESIDE):
            return f"{where} whose elements have a `memory`, and a `user_id` or `created_at`"
        if {"memories.[].content", "memories.[].state"} <= paths:
            return f"{where} whose `memories` have a `content` and a `state`, as OpenMemory writes them"
    return None


def _read(value: Any, member: Member, facts: ImportedFacts, only: str | None, done: int, place: str) -> ReadCandidate:
    if not isinstance(value, dict):
        return ReadCandidate(done, unreadable="it is not a JSON object", place=place)
    words = next((value[name] for name in _WORDS if isinstance(value.get(name), str)), None)
    if words is None:
        return ReadCandidate(done, unreadable=f"it has no text ({', '.join(_WORDS)})", place=place)
    if only is not None and _user(value) != only:
        return ReadCandidate(done, left_out="of another user than --only")
    if value.get("state") in ("deleted", "archived"):
        return ReadCandidate(done, left_out="deleted or archived there")
    times = (moment_of(value.get(name)) for name in ("updated_at", "created_at"))
    at = next((time for time in times if time is not None), member.modified)
    return facts.read(str(value.get("id", "")), words, at, done, place)


def _one_user(export: Export, value: Any, only: str | None, users: set[str]) -> None:
    if only is None and isinstance(value, dict):
        users.update(filter(None, [_user(value)]))
        if len(users) > 1:
            raise InvalidInput(
                f"{export.path} has memories of several users. Name the one whose chat it is with --only USER; nothing was imported."
            )


def _user(value: dict[str, Any]) -> str:
    """ "" where it is of no user, but of an agent or a run."""
    user = value.get("user_id")
    return "" if user is None else str(user)


def _memories(member: Member) -> Iterator[tuple[int, Any, int]]:
    """(number from 1, memory, bytes so far) of the list, or of the lists by these names."""
    with closing(member.open()) as content:
        content.guarded = True
        stream = JsonStream(content)
        event, _ = stream.begin()
        if event == "start_array":
            yield from _elements(stream, content)
        elif event == "start_map":
            found = False
            for name, begun, _ in stream.members():
                if name in _LISTS and begun == "start_array":
                    found = True
                    yield from _elements(stream, content)
                else:
                    stream.skip(begun)
                content.progress()
            if not found:
                raise RecordRefused("it has no list of memories (results, memories)")
        else:
            raise RecordRefused("it is no list of memories")
        stream.end()


def _elements(stream: JsonStream, content: Any) -> Iterator[tuple[int, Any, int]]:
    for number, (begun, value) in enumerate(stream.elements(), start=1):
        whole = stream.value(begun, value)
        content.progress()
        yield number, whole, content.done
