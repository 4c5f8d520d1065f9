#!/usr/bin/env python3
"""A stand-in for the Claude CLI, labelled as such, which prints its input.

It accepts the CLI's arguments and stores sessions like the CLI (filed by working directory; an unknown id is refused). It answers a message of
the file CLAUDE_STAND_IN_SAMPLE with the answer in that file (CODE becomes the tag code of the request), and any other message with the memory
that was injected. With `--output-format stream-json` it prints its answer in pieces, CLAUDE_STAND_IN_PAUSE seconds apart. Used by the demo and by
tests; it needs no account and no network.
"""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

#: Options of the CLI that take one value.
WITH_VALUE = """
output-format input-format settings setting-sources session-id resume append-system-prompt-file model allowedTools tools
"""


def sample_answer(message: str) -> str | None:
    path = os.environ.get("CLAUDE_STAND_IN_SAMPLE")
    if not path:
        return None
    lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    known = {line["message"]: line["answer"] for line in lines if line["kind"] == "exchange"}
    ends = [one for one in known if f"\n\n{message}".endswith(f"\n\n{one}")]  # our own lines precede it
    return known[max(ends, key=len)] if ends else None


def coded(answer: str, memory: str, message: str) -> str:
    """The answer with the tag code that the request gives: last in the system prompt, or first in the message."""
    codes = re.compile(r"^Tag code of this request: (\w+)$", re.MULTILINE)
    found = codes.findall(memory)[-1:] or codes.findall(message)[:1]
    return answer.replace("CODE", found[0]) if found else answer


def session_file(session: str) -> Path:
    place = re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd()))
    folder = Path(os.environ["HOME"]) / ".claude" / "projects" / place
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{session}.jsonl"


def print_pieces(answer: str) -> None:
    """The lines that the CLI prints while it answers, a few words each."""
    pause = float(os.environ.get("CLAUDE_STAND_IN_PAUSE") or 0)
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for event in ({"type": "message_start", "message": {"role": "assistant"}}, block):
        print(json.dumps({"type": "stream_event", "event": event}), flush=True)
    for piece in re.findall(r"(?:\S+\s*){1,4}|\s+", answer):
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
        print(json.dumps({"type": "stream_event", "event": delta}), flush=True)
        time.sleep(pause)


def fail(text: str) -> None:
    sys.stderr.write(text + "\n")
    raise SystemExit(1)


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # what `hmem doctor` asks
        print("2.1.330 (stand-in for Claude Code)")
        return
    if sys.argv[1:] == ["auth", "status"]:
        print(json.dumps({"loggedIn": True, "authMethod": "none, it is a stand-in"}))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-p", "--print", action="store_true")
    for name in WITH_VALUE.split():
        parser.add_argument(f"--{name}")
    parser.add_argument("--mcp-config", nargs="+")
    for name in ("strict-mcp-config", "disable-slash-commands", "verbose", "include-partial-messages"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    message = sys.stdin.read().replace("\u2060", "")
    if given.input_format == "stream-json":
        message = json.loads(message)["message"]["content"][-1]["text"]
    session = given.resume or given.session_id
    history = session_file(session)
    if given.resume and not history.exists():
        fail(f"No conversation found with session ID: {session}")
    if given.session_id and history.exists():
        fail(f"Error: Session ID {session} is already in use.")
    prompt = given.append_system_prompt_file
    memory = Path(prompt).read_text(encoding="utf-8") if prompt else ""
    shown = memory or "(no memory was injected)"
    known = sample_answer(message)
    answer = coded(known, memory, message) if known else f"[stand-in for Claude: it only shows its input]\n\n{shown}"
    line = {"cwd": str(Path.cwd()), "at": time.time(), "message": message, "memory": memory}
    with history.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(line) + "\n")
    if given.output_format == "stream-json":
        print_pieces(answer)
    result = {"type": "result", "subtype": "success", "is_error": False, "result": answer, "session_id": session}
    usage = {"input_tokens": len(message) // 4, "output_tokens": len(answer) // 4}
    print(json.dumps(result | {"total_cost_usd": 0.0, "duration_ms": 1, "num_turns": 1, "usage": usage}))


if __name__ == "__main__":
    main()
