"""Measures what the dispatcher adds to Claude's own time: tasks per second from a full queue, and latency one task at a time.

Claude is stood in for by a shell script that prints one JSON line at once; its own time is measured alone and taken off. Beside `hmem run`, in the
same run on the same Redis: h-cli's way as a reference, which pops one task, runs the same script, and writes result, turns and history, with
no memory, no order within a chat, and nothing that survives a kill. Both are processes of their own. Ratios count; the times are this machine's.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import typer
from redis import Redis

from scripts.benchmarks.memory import WORDS, Environment, make_release
from scripts.benchmarks.world import megabytes, started

STAND_IN = """#!/bin/sh
printf '{"type":"result","result":"All right, noted.","is_error":false,"num_turns":1,"duration_ms":1,"usage":{"input_tokens":9,"output_tokens":5}}'
"""
OFF = {"MEMORY_BACKEND": "none", "MEMORY_TOKENS": "0", "DAY_STORE_URL": "none"}
POLL_SECONDS = 0.0003
PATIENCE_SECONDS = 300.0
#: Chats of the single questions and of the warm-up.
WARM_UP = 5


def measure(environment: Environment, tasks: int, chats: int, turns: int, single: int, concurrent: int) -> None:
    """All of it, in one world."""
    stand_in = Path(environment["HOME"]) / "claude"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o700)
    environment = environment | {
        "CLAUDE_BIN": str(stand_in),
        "MAX_CONCURRENT_TASKS": str(concurrent),
        "LOG_LEVEL": "info",
    }
    own = alone(stand_in, single)
    typer.echo(
        f"stand-in alone: p50 {own:.2f} ms; {tasks} tasks of {chats} chats, {concurrent} at once, then {single} one at a time"
    )
    reference = [sys.executable, __file__, "reference"]
    hmem = ["hmem", "run"]
    base = _report(environment, "h-cli's way", [reference], tasks, chats, single, own, None)
    for count in (1, 2):
        _report(
            environment | OFF, f"memory off, {count} dispatcher(s)", [hmem] * count, tasks, chats, single, own, base
        )
    make_release(environment, chats, turns)
    for count in (1, 2):
        _report(environment, f"memory on, {count} dispatcher(s)", [hmem] * count, tasks, chats, single, own, base)


def alone(stand_in: Path, rounds: int) -> float:
    """Milliseconds that starting and reading the script takes, by Python's shortest way."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([str(stand_in)], input=b"hello", capture_output=True, check=True)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def _report(
    environment: Environment, label: str, commands: list[list[str]], tasks: int, chats: int, single: int, own: float,
    base: float | None,
) -> float:  # fmt: skip
    """Print one line; tasks a second."""
    with Redis.from_url(environment["REDIS_URL"]) as client, ExitStack() as stack:
        processes = [stack.enter_context(started(environment, *command)) for command in commands]
        began = time.perf_counter()
        ask(client, "chat-0", "start")
        first = time.perf_counter() - began
        for number in range(WARM_UP * len(processes)):
            ask(client, f"chat-{number % chats}", "warm up")
        time.sleep(3)  # vectors are loaded in the background
        used = [cpu_seconds(process.pid) for process in processes]
        rate = _rate(client, tasks, chats)
        used = [cpu_seconds(process.pid) - before for process, before in zip(processes, used, strict=True)]
        times = sorted(ask(client, f"chat-{number % chats}", f"question {number}") for number in range(single))
        p50, p99 = statistics.median(times), times[int(0.99 * len(times))]
        memory = " + ".join(f"{megabytes(process.pid):.0f}" for process in processes)
    ratio = f" ({rate / base:.2f} times h-cli's way)" if base else ""
    typer.echo(
        f"  {label}: {rate:.0f} tasks/s{ratio}; CPU of the process {1000 * sum(used) / tasks:.2f} ms a task; added one at a time p50 "
        f"{p50 - own:.2f} / p99 {p99 - own:.2f} ms; first answer after {first:.2f} s; RSS {memory} MB"
    )
    return rate


def _task(chat: str, message: str) -> tuple[str, bytes]:
    task_id = f"bench-{time.monotonic_ns()}"
    task = {"task_id": task_id, "message": message, "chat_id": chat, "user_id": 1, "model": "sonnet",
            "submitted_at": datetime.now(UTC).isoformat()}  # fmt: skip
    return task_id, json.dumps(task).encode()


def ask(client: Redis, chat: str, message: str) -> float:
    """Milliseconds from the push to the result."""
    task_id, raw = _task(chat, message)
    began, key = time.perf_counter(), f"hcli:results:{task_id}"
    client.rpush("hcli:tasks", raw)
    while not client.exists(key):
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise SystemExit("bench: no answer came")
        time.sleep(POLL_SECONDS)
    return (time.perf_counter() - began) * 1000


def _rate(client: Redis, tasks: int, chats: int) -> float:
    """Tasks a second, from a queue that is full at once to the last answer."""
    day = f"hcli:stats:{datetime.now(UTC):%Y-%m-%d}"
    before = int(cast(bytes, client.hget(day, "tasks") or b"0"))
    raws = [
        _task(f"chat-{number % chats}", f"{WORDS[number % len(WORDS)]} number {number}?")[1] for number in range(tasks)
    ]
    began = time.perf_counter()
    client.rpush("hcli:tasks", *raws)
    while int(cast(bytes, client.hget(day, "tasks") or b"0")) < before + tasks:
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise SystemExit("bench: not all were answered")
        time.sleep(0.01)
    return tasks / (time.perf_counter() - began)


def cpu_seconds(process: int) -> float:
    """Of the process itself, without its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reference() -> None:
    """h-cli's way: pop, run, write."""
    client = Redis.from_url(os.environ["REDIS_URL"])
    secret, claude = os.environ["RESULT_HMAC_KEY"].encode(), os.environ["CLAUDE_BIN"]
    while True:
        popped = cast("list[bytes] | None", client.blpop(["hcli:tasks"], timeout=5))
        if popped is None:
            continue
        task = json.loads(popped[1])
        task_id, chat, message = task["task_id"], task["chat_id"], task["message"]
        command = [claude, "-p", "--output-format", "json", "--model", task["model"], "--session-id", task_id]
        done = subprocess.run(command, input=message, capture_output=True, text=True, check=False)
        output, moment = json.loads(done.stdout)["result"], datetime.now(UTC).isoformat()
        signature = hmac.new(secret, f"{task_id}:{output}:{moment}".encode(), hashlib.sha256).hexdigest()
        for role, said in (("user", message), ("asst", output)):
            turn = {"chat_id": chat, "role": role, "content": said, "timestamp": time.time(), "task_id": task_id}
            client.set(f"hcli:memory:{task_id}:{role}", json.dumps(turn))
            client.rpush(f"hcli:session_history:{chat}", json.dumps(turn))
        client.hincrby(f"hcli:stats:{datetime.now(UTC):%Y-%m-%d}", "tasks", 1)
        result = {"output": output, "completed_at": moment, "hmac": signature}
        client.set(f"hcli:results:{task_id}", json.dumps(result), ex=600)


if __name__ == "__main__":
    reference()
