"""A genuine export of each format, made by us: of two turns, and a later one of two more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.nightly.imports.exports.builders import (
    NOON,
    claude_conversation,
    claude_message,
    gpt_conversation,
    gpt_node,
    signal_frames,
    signal_item,
    written,
    zipped,
)
from tests.support.night.old_history import ANN, BOT, EXCHANGE, LOG, bare, bot_chat, chunk_file, message

ANSWER = "A heron stands at the pond."


def chatgpt(root: Path, more: bool) -> Path:
    nodes = [gpt_node("q", "root", "user", "what stands there?"), gpt_node("a", "q", "assistant", ANSWER, NOON + 5)]
    nodes += [gpt_node("q2", "a", "user", "thanks", NOON + 9)] if more else []
    other = [gpt_conversation(gpt_node("z", "root", "user", "thanks", NOON + 9), conversation_id="c-2")] if more else []
    return written(root / "export.zip", zipped({"conversations.json": json.dumps([gpt_conversation(*nodes), *other])}))


def claude(root: Path, more: bool) -> Path:
    messages = [claude_message("q", "human", "what stands there?"), claude_message("a", "assistant", ANSWER)]
    messages += [claude_message("q2", "human", "thanks"), claude_message("q3", "human", "thanks")] if more else []
    return written(root / "conversations.json", [claude_conversation(*messages)])


def whatsapp(root: Path, more: bool) -> Path:
    lines = ["09.02.26, 12:00 - Ann: what stands there?", f"09.02.26, 12:00 - Bob: {ANSWER}"]
    lines += ["09.02.26, 12:01 - Ann: thanks", "09.02.26, 12:01 - Bob: thanks"] if more else []
    return written(root / "_chat.txt", "\n".join(lines))


def signal(root: Path, more: bool) -> Path:
    items = [signal_item("1", "what stands there?"), signal_item("2", ANSWER, NOON + 5)]
    items += [signal_item("1", "thanks", NOON + 9), signal_item("2", "thanks", NOON + 9)] if more else []
    return written(root / "main.jsonl", "\n".join(map(json.dumps, signal_frames(*items))))


def facts(more: bool) -> list[str]:
    return ["what stands there?", ANSWER, *(["thanks", "thanks"] if more else [])]


def openclaw(root: Path, more: bool) -> Path:
    written(root / "ws" / "memory" / "2026-02-09.md", "".join(f"- 12:00 {fact}\n" for fact in facts(more)))
    return root / "ws"


def basic_memory(root: Path, more: bool) -> Path:
    noted = "".join(f"- [fact] {fact}\n" for fact in facts(more))
    body = f"---\ntitle: Pond\ncreated: 2026-02-09T12:00:00Z\n---\n{noted}"
    written(root / "kb" / "pond.md", body)
    return root / "kb"


def mem0(root: Path, more: bool) -> Path:
    rows = [{"id": f"m{n}", "memory": fact, "created_at": "2026-02-09T12:00:00Z"} for n, fact in enumerate(facts(more))]
    return written(root / "memories.json", json.dumps({"results": rows}))


def telegram(root: Path, more: bool) -> Path:
    said = [message(1, ANN, "what stands there?"), message(2, BOT, ANSWER, NOON + 5)]
    said += [message(3, ANN, "thanks", NOON + 9), message(4, ANN, "thanks", NOON + 9)] if more else []
    return written(root / "result.json", json.dumps(bot_chat(*said), ensure_ascii=False))


def jsonl(root: Path, more: bool) -> Path:
    lines = [
        bare("j1", "what stands there?"),
        bare("j1", ANSWER, role="asst"),
        *([bare("j2", "thanks"), bare("j3", "thanks")] if more else []),
    ]
    return written(root / "turns.jsonl", b"\n".join(lines))


def chunks(root: Path, more: bool) -> Path:
    return written(root / "chunk_20260209T173320Z.txt", chunk_file(EXCHANGE if more else EXCHANGE[:2]))


def audit(root: Path, more: bool) -> Path:
    lines = [one for one in LOG if isinstance(one, dict)]
    return written(root / "audit.log", "\n".join(map(json.dumps, lines if more else lines[:3])))


def memory_list(root: Path, more: bool) -> Path:
    return written(root / "list.txt", "".join(f"[2026-02-09] - {fact}\n" for fact in facts(more)))


GOLDEN: dict[str, Callable[[Path, bool], Path]] = {
    "chatgpt": chatgpt, "claude": claude, "whatsapp": whatsapp, "signal": signal, "openclaw": openclaw, "basic-memory": basic_memory, "mem0": mem0,
    "memory-list": memory_list,
    "telegram": telegram, "jsonl": jsonl, "chunks": chunks, "audit": audit,
}  # fmt: skip
