"""Claude's data export (Settings, Privacy, Export data): `conversations.json`.

    [{"uuid", "name", "created_at", "updated_at", "chat_messages": [{"uuid", "sender": "human" or "assistant", "text", "created_at",
        "content": [{"type": "text", "text"}, {"type": "thinking"}, {"type": "tool_use"}, ...],
        "attachments": [{"file_name", "extracted_content"}], "files": [{"file_name"}], "parent_message_uuid"}, ...]}, ...]

Times are ISO 8601. Anthropic documents the export, not its fields. They are read as public readers of it describe them:
github.com/Sinity/polylogue (docs/providers/claude-ai.md), github.com/TomzxCode/llm-conversations-viewer (docs/formats.md).

Of a message its text blocks count, or `text` where it has no blocks at all; thoughts and calls of tools are left out, and so is what `text` has in
their place. What Claude read out of an attached file follows the message's text under the file's name: a long paste has no other place.
`parent_message_uuid` is not in every export; where it is, the conversation is the branch of `current_leaf_message_uuid`, or of the last message.
Nor is `uuid`: then a message is told by its time, its side and its words, and a conversation by when it began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nightly.imports.candidates import ReadCandidate
from nightly.imports.containers.opening import Export, opened_export
from nightly.imports.formats import ImportFormat, Source, file_by_file
from nightly.imports.readers.conversations import (
    PATTERNS,
    Assistant,
    Conversation,
    ConversationFiles,
    Node,
    ShownMessage,
    identity_of,
    list_of,
)
from nightly.imports.readers.memories.facts import ImportedFacts
from nightly.imports.readers.memories.told import claude_facts, claude_memories
from nightly.imports.recognition import outlines
from shared.hooks import hook
from shared.wire.ids import moment_of

_ROLES = {"human": "user", "user": "user", "assistant": "asst"}
#: What stands in `text`, and in some blocks, for thoughts and calls of tools.
_PLACEHOLDER = re.compile(r"(?:```\s*)?This block is not supported on your current device yet\.(?:\s*```)?")


def _node(conversation: Conversation, number: int, value: Any) -> Node | None:
    """A message, behind the one that it names, or else behind the one before it."""
    if not isinstance(value, dict):
        conversation.refused.append(f"message {number} is not a JSON object")
        return None
    told = (value.get("created_at"), value.get("sender"), _text(value))
    identity = identity_of(value.get("uuid")) or conversation.ids.next(*told)
    before = next(reversed(conversation.nodes), None)
    parent = identity_of(value.get("parent_message_uuid")) if "parent_message_uuid" in value else before
    return Node(identity, parent, _content(value))


def _content(message: dict[str, Any]) -> ShownMessage | str | None:
    role = _ROLES.get(str(message.get("sender")))
    if role is None:
        return "of another sender than human and assistant"
    text = _text(message)
    if not text.strip():
        return "without text (media, thoughts, a call of a tool)"
    return ShownMessage(role, text, moment_of(message.get("created_at")), _attachment(message))


def _text(message: dict[str, Any]) -> str:
    blocks, whole = _list(message.get("content")), message.get("text")
    texts = [one["text"] for one in blocks if one.get("type") == "text" and isinstance(one.get("text"), str)]
    if not blocks and isinstance(whole, str):
        texts = [whole]
    if message.get("sender") == "assistant":
        texts = [_PLACEHOLDER.sub("", text).strip() if _PLACEHOLDER.search(text) else text for text in texts]
    said = "\n\n".join(text for text in texts if text.strip())
    files = [
        f"[{one.get('file_name') or 'attached text'}]\n{one['extracted_content']}"
        for one in _list(message.get("attachments"))
        if isinstance(one.get("extracted_content"), str) and one["extracted_content"].strip()
    ]
    return "\n\n".join(part for part in (said, *files) if part.strip())


def _attachment(message: dict[str, Any]) -> dict[str, str] | None:
    """The first one."""
    for one in (*_list(message.get("attachments")), *_list(message.get("files"))):
        if isinstance(one.get("file_name"), str) and one["file_name"]:
            return {"kind": "document", "name": one["file_name"]}
    return None


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in list_of(value) if isinstance(one, dict)]


CLAUDE = Assistant(
    "claude",
    "Claude's export",
    ("chat_messages", "start_array"),
    {"uuid": "identity", "name": "title", "created_at": "began", "current_leaf_message_uuid": "leaf"},
    _node,
    moment_of,
    "chat_messages",
)


def _read(path: Path, source: Source) -> Iterator[ReadCandidate]:
    """What Claude remembers of the person (memories/told.py), and the conversations."""
    with opened_export(path, source.zone) as export:
        facts, conversations = (
            ImportedFacts("claude", "Claude's memory", source.wanted),
            ConversationFiles(CLAUDE, source),
        )
        memories = [] if source.options.get("only") else claude_memories(export)
        no_more = memories and (export.alone or not export.fitting(*PATTERNS))
        members = memories if no_more else [*memories, *export.named(*PATTERNS)]
        yield from export.each(
            members, lambda one: claude_facts(one, facts) if one in memories else conversations.read(one)
        )


def _recognise(export: Export) -> str | None:
    if found := CLAUDE.recognise(export):
        return found
    for where, paths in outlines(export, "memories.json"):
        if {"conversations_memory", "[].conversations_memory"} & paths:
            return f"{where} with a `conversations_memory`"
    return None


@hook
def import_formats() -> Sequence[ImportFormat]:
    what = "Claude's data export (ZIP, conversations.json or memories.json)"
    return [ImportFormat("claude", what, file_by_file(_read), _recognise, options=("as", "only"))]
