"""The memory server of one chat, asked by hand where the SDK's client is too polite."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dispatcher.features.mcp.claude_server import (
    READING,
)
from dispatcher.features.mcp.tests.memory_server import MAY, command_of
from tests.support.machine import wait_for
from tests.support.world import World


@contextmanager
def by_hand(world: World, chat: str = "9912", **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The server with pipes, and its log beside."""
    command, variables = command_of(world, chat, **settings)
    variables |= {"HOME": str(world.root), "PATH": os.defpath}
    log = (world.root / "server.log").open("wb")
    process = subprocess.Popen(
        command, env=variables, cwd=world.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
    )
    with log, process:
        yield process
        process.kill()


def asked(process: subprocess.Popen[bytes], line: bytes) -> dict[str, Any]:
    assert process.stdin
    assert process.stdout
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    assert answer["jsonrpc"] == "2.0"
    return answer


def request(number: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


INITIALIZE = request(
    1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def begin(process: subprocess.Popen[bytes]) -> None:
    assert asked(process, INITIALIZE)["result"]["serverInfo"]["name"] == "memory"
    assert process.stdin
    process.stdin.write(INITIALIZED)


@pytest.mark.slow
def test_nothing_is_opened_before_it_is_needed(talked: World) -> None:
    elsewhere = talked.root / "elsewhere"
    with by_hand(talked, hmem_state_dir=elsewhere, log_level="debug") as process:
        begin(process)
        assert len(asked(process, request(2, "tools/list"))["result"]["tools"]) == len(READING)
        files = {link.resolve() for link in (Path(f"/proc/{process.pid}/fd")).iterdir() if link.exists()}
        assert not [path for path in files if path.suffix == ".sqlite"], files
        assert not elsewhere.exists()
        call = request(3, "tools/call", name="memory_search", arguments={"query": "boiler"})
        assert "4711" in json.dumps(asked(process, call)["result"])
        assert elsewhere.exists()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) == 0
    assert "Traceback" not in (talked.root / "server.log").read_text()


@pytest.mark.slow
def test_lines_that_are_no_request_are_survived(talked: World) -> None:
    with by_hand(talked) as process:
        begin(process)
        assert process.stdin
        for line in (b"no json", b"\xff\xfe\x00", b'{"jsonrpc":"2.0","id":7}', b"[" * 100_000, b""):
            process.stdin.write(line + b"\n")
        surrogate = rb'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"memory_search","arguments":{"query":"boiler \ud800"}}}'
        process.stdin.write(surrogate + b"\n")
        process.stdin.write(request(9, "tools/call", name="memory_search", arguments={"query": "boiler"}) + b"\n")
        process.stdin.flush()
        assert process.stdout
        for line in process.stdout:  # each of them is protocol
            answer = json.loads(line)
            if answer.get("id") == 9:
                assert "4711" in json.dumps(answer["result"])
                break
        else:
            pytest.fail("it ended")


@pytest.mark.slow
def test_no_private_view_of_an_index_stays_behind(world: World) -> None:
    world.environment = {"NIGHT_INDEXES": "chroma"}
    world.say("t1", "The heron came to the pond this morning.", timestamp=MAY)
    world.night()
    views = world.root / "state" / "views"
    for way in (signal.SIGTERM, None):
        with by_hand(world) as process:
            begin(process)
            call = request(3, "tools/call", name="memory_search", arguments={"query": "heron"})
            # A busy machine opens the index after the first answer.
            wait_for(lambda: "no vector search" not in json.dumps(asked(process, call)), "vector search")  # noqa: B023 - called at once
            assert [path for path in views.iterdir() if path.is_dir()], "there is one while it runs"
            assert process.stdin
            process.stdin.close() if way is None else process.send_signal(way)
            assert process.wait(timeout=600) == 0
        wait_for(lambda: not [path for path in views.iterdir() if path.is_dir()], "the view to go")
