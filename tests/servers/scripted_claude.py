#!/usr/bin/env python3
"""A stand-in for the Claude CLI that says what a test tells it to, and writes down every whole request.

`$HOME/answers.json` maps a message to its answer; any other message gets "All right.". Where an answer says CODE, the tag code of the request
stands, as a model would write it. `$HOME/requests.jsonl` gets a line for each request:
system (the file of --append-system-prompt-file), message, history (of a resumed session, all its messages and raw answers, as the CLI would send
them), session, resumed. While `$HOME/hold` exists, no answer is given. With `--output-format stream-json` the answer comes word by word;
while `$HOME/hold-after` exists, which holds a number, only so many words of it.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

HOME = Path(os.environ["HOME"])


def given(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def history_of(session: str) -> Path:
    place = re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd()))  # as the CLI files them: by working directory
    folder = HOME / ".scripted" / place
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{session}.json"


def tag_code(system: str, message: str) -> str:
    """The last one of the system prompt, else the first of the message: what the rules point to."""
    codes = re.compile(r"^Tag code of this request: (\w+)$", re.MULTILINE)
    found = codes.findall(system)[-1:] or codes.findall(message)[:1]
    return found[0] if found else "CODE"


def print_words(answer: str) -> None:
    """As the CLI does while it answers."""
    words = re.findall(r"\S+\s*|\s+", answer)
    for number, word in enumerate(words):
        held = HOME / "hold-after"
        while held.exists() and number >= int(held.read_text() or 0):
            time.sleep(0.02)
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        print(json.dumps({"type": "stream_event", "event": delta}), flush=True)


def main() -> None:
    if "--help" in sys.argv:
        return
    message = sys.stdin.read().replace("\u2060", "")
    if given("--input-format") == "stream-json":
        message = json.loads(message)["message"]["content"][-1]["text"]
    resumed, session = given("--resume"), given("--resume") or given("--session-id")
    kept = history_of(session)
    if resumed and not kept.exists():
        sys.exit(f"No conversation found with session ID: {session}")
    if not resumed and kept.exists():
        sys.exit(f"Error: Session ID {session} is already in use.")
    history = json.loads(kept.read_text()) if resumed else []
    prompt = given("--append-system-prompt-file")
    request = {
        "system": Path(prompt).read_text(encoding="utf-8") if prompt else "",
        "message": message,
        "history": history,
        "session": session,
        "resumed": bool(resumed),
    }
    with (HOME / "requests.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(request, ensure_ascii=False) + "\n")
    while (HOME / "hold").exists():
        time.sleep(0.02)
    answers = HOME / "answers.json"
    known = json.loads(answers.read_text()) if answers.exists() else {}
    # with RECALL_PLACEMENT=message our own lines stand ahead
    ends = [one for one in known if f"\n\n{message}".endswith(f"\n\n{one}")]
    answer = known[max(ends, key=len)] if ends else "All right."
    answer = answer.replace("CODE", tag_code(str(request["system"]), message))
    kept.write_text(json.dumps([*history, {"message": message, "answer": answer}]))
    if given("--output-format") == "stream-json":
        print_words(answer)
    usage = {"input_tokens": len(message) // 4, "output_tokens": len(answer) // 4}
    record = {"type": "result", "subtype": "success", "is_error": False, "result": answer, "session_id": session}
    print(json.dumps(record | {"total_cost_usd": 0.0, "duration_ms": 1, "num_turns": 1, "usage": usage}))


if __name__ == "__main__":
    main()
