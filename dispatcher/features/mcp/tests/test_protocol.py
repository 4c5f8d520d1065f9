"""The memory server of one chat, asked by hand where the SDK's client is too polite."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dispatcher.features.mcp.tests.memory_server import command_of
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
