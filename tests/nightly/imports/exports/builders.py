"""Exports of other programs, made from what is documented of their formats; nobody's data."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate, Wanted
from nightly.imports.formats import Source, format_named
from shared.config.settings import settings_from
from shared.turns.records import Turn

NOON = 1_770_638_400.0  # 2026-02-09 12:00:00 UTC
BERLIN = ZoneInfo("Europe/Berlin")
HERE = Wanted(chat="9912")


def gpt_node(
    name: str, parent: str | None, role: str, text: Any, at: float | None = NOON, **more: Any
) -> dict[str, Any]:
    """A node of ChatGPT's mapping; `more` goes into the message."""
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message: dict[str, Any] = {"id": name, "author": {"role": role, "name": None, "metadata": {}}, "create_time": at, "content": content,
               "status": "finished_successfully", "weight": 1.0, "metadata": {}, "recipient": "all"}  # fmt: skip
    return {"id": name, "message": message | more, "parent": parent, "children": []}


def gpt_conversation(
    *nodes: dict[str, Any], leaf: str | None = None, title: str = "Boiler", **more: Any
) -> dict[str, Any]:
    root: dict[str, Any] = {"id": "root", "message": None, "parent": None, "children": []}
    mapping = {node["id"]: node for node in (root, *nodes)}
    return {"title": title, "create_time": NOON - 9, "update_time": NOON, "mapping": mapping, "moderation_results": [],
            "current_node": leaf or nodes[-1]["id"], "conversation_id": "c-1", "id": "c-1", **more}  # fmt: skip


def claude_message(
    name: str, sender: str, text: str, at: str = "2026-02-09T12:00:00.000000Z", **more: Any
) -> dict[str, Any]:
    block = {"start_timestamp": at, "stop_timestamp": at, "type": "text", "text": text, "citations": []}
    return {"uuid": name, "text": text, "content": [block], "sender": sender, "created_at": at, "updated_at": at,
            "attachments": [], "files": [], **more}  # fmt: skip


def claude_conversation(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"uuid": "conv-1", "name": "Trip to Rome", "created_at": "2026-02-09T11:59:00Z", "updated_at": "2026-02-09T12:00:00Z",
            "account": {"uuid": "acc"}, "chat_messages": [*messages], **more}  # fmt: skip


def signal_frames(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of `main.jsonl`: an account of two chats, one with Bob and one group."""
    return [
        {"version": "1", "backupTimeMs": "1770638400000"},
        {"account": {"givenName": "Ann", "familyName": "Example"}},
        {"recipient": {"id": "1", "self": {}}},
        {
            "recipient": {
                "id": "2",
                "contact": {"e164": "491701234567", "profileGivenName": "Bob", "profileFamilyName": "B"},
            }
        },
        {"recipient": {"id": "3", "group": {"snapshot": {"title": {"title": "Family"}}}}},
        {"chat": {"id": "10", "recipientId": "2"}},
        {"chat": {"id": "11", "recipientId": "3"}},
        *({"chatItem": item} for item in items),
    ]


def signal_item(author: str, text: str, at: float = NOON, chat: str = "10", **more: Any) -> dict[str, Any]:
    way = {"outgoing": {}} if author == "1" else {"incoming": {"read": True}}
    message = {"text": {"body": text}} if text else {"attachments": [{"pointer": {"contentType": "image/jpeg"}}]}
    return {
        "chatId": chat,
        "authorId": author,
        "dateSent": str(int(at * 1000)),
        **way,
        "standardMessage": message | more,
    }


def zipped(files: Mapping[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 2, 9, 12, 0, 0)), content, method)
    return packed.getvalue()


def written(path: Path, content: bytes | str | list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, list):
        content = json.dumps(content, ensure_ascii=False)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(source: str, path: Path, wanted: Wanted = HERE, **options: Any) -> list[ReadCandidate]:
    """All that the reader of this format yields. `options`: those of the format (`as_` for `as`)."""
    return list(reading(source, path, wanted, **options))


def reading(
    source: str,
    path: Path,
    wanted: Wanted = HERE,
    zone: ZoneInfo = BERLIN,
    token: str | None = None,
    **options: str | None,
) -> Iterator[ReadCandidate]:
    """The same, one by one."""
    settings = settings_from({"chat_timezone": zone.key, "telegram_bot_token": token})
    given = {name.rstrip("_"): value for name, value in options.items() if value is not None}
    return format_named(source).reading(Source([path], wanted, settings, given))(path, 0)


def turns(reads: list[ReadCandidate]) -> list[Turn]:
    return [one.candidate.turn for one in reads if one.candidate and one.candidate.turn]


def said(reads: list[ReadCandidate]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in turns(reads)]


def left(reads: list[ReadCandidate]) -> list[str]:
    return [one.left_out for one in reads if one.left_out is not None]


def unread(reads: list[ReadCandidate]) -> list[str]:
    return [one.unreadable for one in reads if one.unreadable is not None]
