"""ChatGPT's data export (Settings, Data controls, Export data): `conversations.json`, in newer ones `conversations-000.json` and further parts.

    [{"id" or "conversation_id", "title", "create_time", "current_node", "mapping": {NODE: {"id", "parent", "children", "message": {
        "id", "author": {"role", "name"}, "create_time", "recipient", "channel", "content": {"content_type", "parts": [...]},
        "metadata": {"is_visually_hidden_from_conversation", "attachments": [{"name"}], ...}}}}}, ...]

Times are POSIX seconds. OpenAI documents the export, not its fields. They are read as public readers of it describe them:
github.com/mitkury/chatgpt-export-parser (docs/chatgpt-data-export-format.md), github.com/TomzxCode/llm-conversations-viewer (docs/formats.md).

The conversation is the branch that ends with `current_node`. System messages, calls of tools and their answers, thoughts, and what ChatGPT hid are
no part of what was said; but what it wrote to `bio` is what it remembers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from nightly.imports.formats import ImportFormat, file_by_file
from nightly.imports.readers.conversations import (
    Assistant,
    Conversation,
    Node,
    ShownMessage,
    identity_of,
    list_of,
    object_of,
)
from shared.hooks import hook
from shared.turns.records import RecordRefused, timestamp_of

_ROLES = {"user": "user", "assistant": "asst"}
#: What the model writes for itself, or what ChatGPT adds to a prompt.
_INTERNAL = ("thoughts", "reasoning_recap", "user_editable_context", "model_editable_context", "system_error")
_HIDDEN = ("is_visually_hidden_from_conversation", "is_user_system_message")
#: The content types of parts other than text → the kind of attachment.
_ATTACHED = {"image_asset_pointer": "photo", "audio_asset_pointer": "voice", "video_container_asset_pointer": "video"}
#: Marks that ChatGPT draws as something else: `\ue200cite\ue202turn0search1\ue201`, `\ue200entity\ue202["city","Rome"]\ue201`.
_MARK = re.compile("[ ]?\ue200(?P<kind>[^\ue200-\ue202]*)(?:\ue202(?P<values>[^\ue200\ue201]*))?\ue201")
#: Later than any time in seconds: some exports have milliseconds.
_MILLISECONDS = 1e11


def _node(conversation: Conversation, name: str, value: Any) -> Node:
    node = object_of(value)
    message = node.get("message", ...)
    if not isinstance(message, dict | None):
        conversation.refused.append("a node of the mapping has no message, not even an empty one")
    return Node(name, identity_of(node.get("parent")), _content(message) if isinstance(message, dict) else None)


def _content(message: dict[str, Any]) -> ShownMessage | str | None:
    author, content, metadata = (object_of(message.get(name)) for name in ("author", "content", "metadata"))
    role = str(author.get("role"))
    text = _text(content)
    if role not in _ROLES:
        role = role if role in ("system", "tool") else "of another name"
        return f"of the role {role}, not said by anybody" if text.strip() else None
    if any(metadata.get(name) for name in _HIDDEN):
        return "hidden by ChatGPT" if text.strip() else None
    if content.get("content_type") in _INTERNAL or message.get("channel") == "analysis":
        return "thoughts, or context that ChatGPT adds"
    recipient = message.get("recipient")
    if role == "assistant" and recipient == "bio" and text.strip():
        return ShownMessage("user", text, _time(message.get("create_time")), noted_by="ChatGPT's memory")
    if role == "assistant" and recipient not in (None, "all"):
        return "a call of a tool"
    if not text.strip():
        return "without text (media)"
    return ShownMessage(_ROLES[role], text, _time(message.get("create_time")), _attachment(content, metadata))


def _text(content: dict[str, Any]) -> str:
    """The text of all parts; of a part that is an object its text: what was said into a microphone has one."""
    found = [part if isinstance(part, str) else object_of(part).get("text") for part in list_of(content.get("parts"))]
    texts = [text for text in found if isinstance(text, str) and text.strip()]
    whole = content.get("text")
    return _MARK.sub(_drawn, "\n".join(texts) if texts else whole if isinstance(whole, str) else "")


def _drawn(mark: re.Match[str]) -> str:
    """What is shown in the place of a mark, as far as it is words: the name of an entity. A source is no part of what was said."""
    if mark["kind"] != "entity":
        return ""
    try:
        values = json.loads(mark["values"] or "")
    except (ValueError, RecursionError):
        return ""
    name = values[1] if isinstance(values, list) and len(values) > 1 else ""
    return f"{' ' if mark[0].startswith(' ') else ''}{name}" if isinstance(name, str) else ""


def _attachment(content: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str] | None:
    """The first one."""
    for file in map(object_of, list_of(metadata.get("attachments"))):
        name, kind = file.get("name"), str(file.get("mime_type", file.get("mimeType", "")))
        if isinstance(name, str):
            return {"kind": "photo" if kind.startswith("image/") else "document", "name": name}
    kinds = (_ATTACHED.get(str(object_of(part).get("content_type"))) for part in list_of(content.get("parts")))
    return next(({"kind": kind} for kind in kinds if kind), None)


def _time(value: Any) -> float | None:
    try:
        seconds = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        return None if seconds is None else timestamp_of(seconds / 1000 if seconds > _MILLISECONDS else seconds)
    except (RecordRefused, OverflowError):
        return None


CHATGPT = Assistant(
    "gpt",
    "ChatGPT's export",
    ("mapping", "start_map"),
    # Both ids are the same, and older exports have only `id`.
    {"conversation_id": "identity", "id": "identity", "title": "title", "create_time": "began", "current_node": "leaf"},
    _node,
    _time,
    "mapping.[^.]*.message",
)


@hook
def import_formats() -> Sequence[ImportFormat]:
    what = "ChatGPT's data export (ZIP or conversations.json)"
    return [ImportFormat("chatgpt", what, file_by_file(CHATGPT.read), CHATGPT.recognise, options=("as", "only"))]
