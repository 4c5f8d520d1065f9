"""Whom the CLI asks about its tools: whatever goes wrong on the way is a refusal, and only the first connection is served."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

from dispatcher.features.approvals.server import BROKEN, approval_server


async def decide(tool: str, given: dict[str, Any]) -> str:
    if tool == "Broken":
        raise RuntimeError("no Redis")
    return "" if given.get("may") else f"{tool} was denied."


class Client:
    """What the CLI does: it starts the command of the file, and speaks with it in lines."""

    def __init__(self, config: Path) -> None:
        (server,) = json.loads(config.read_text())["mcpServers"].values()
        self.socket = Path(server["args"][-1])
        self.process = subprocess.Popen(
            [server["command"], *server["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    async def ask(self, method: str, params: object = None, number: object = 1) -> dict[str, Any]:
        return await asyncio.to_thread(self._ask, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def _ask(self, request: object) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    async def verdict(self, arguments: object) -> dict[str, Any]:
        result = await self.ask("tools/call", {"name": "ask", "arguments": arguments})
        return dict(json.loads(result["result"]["content"][0]["text"]))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_it_answers_as_the_cli_needs_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with approval_server(decide, tmp_path) as config:
            with closing(Client(config)) as client:
                hello = await client.ask("initialize", {"protocolVersion": "2025-11-25"})
                assert hello["result"]["protocolVersion"] == "2025-11-25"
                assert [one["name"] for one in (await client.ask("tools/list"))["result"]["tools"]] == ["ask"]
                assert (await client.ask("server/discover"))["error"]["code"] == -32601
                allowed = {"behavior": "allow", "updatedInput": {"may": 1}}
                assert await client.verdict({"tool_name": "Bash", "input": {"may": 1}}) == allowed
                denied = {"behavior": "deny", "message": "Bash was denied."}
                assert await client.verdict({"tool_name": "Bash", "input": {}}) == denied
                no_text = {"may": True, "text": "ü \ud800"}
                assert (await client.verdict({"tool_name": "Bash", "input": no_text}))["behavior"] == "deny"
        assert list(tmp_path.iterdir()) == []

    asyncio.run(run())


def test_what_goes_wrong_is_a_refusal(tmp_path: Path) -> None:
    wrong = [
        {"tool_name": "Broken", "input": {"may": 1}}, {"tool_name": 3, "input": {"may": 1}}, {"tool_name": "Bash", "input": "may"}, [],
    ]  # fmt: skip

    async def run() -> list[dict[str, Any]]:
        async with approval_server(decide, tmp_path) as config:
            with closing(Client(config)) as client:
                return [await client.verdict(arguments) for arguments in wrong]

    assert asyncio.run(run()) == [{"behavior": "deny", "message": BROKEN}] * len(wrong)


def test_a_program_that_connects_later_finds_nobody(tmp_path: Path) -> None:
    async def run() -> None:
        async with approval_server(decide, tmp_path) as config:
            with closing(Client(config)) as client:
                await client.ask("ping")
                assert not client.socket.exists()
                with closing(Client(config)) as another:
                    assert another.process.wait(600) != 0

    asyncio.run(run())


def test_a_question_ends_with_the_call(tmp_path: Path) -> None:
    ended, begun = [], asyncio.Event()

    async def slow(tool: str, _: dict[str, Any]) -> str:
        begun.set()
        try:
            await asyncio.sleep(900)
        finally:
            ended.append(tool)
        return ""

    async def run() -> None:
        async with approval_server(slow, tmp_path) as config:
            client = Client(config)
            asking = asyncio.create_task(client.ask("tools/call", {"arguments": {"tool_name": "Slow", "input": {}}}))
            await begun.wait()
        assert await asking == {}, "the connection is closed without an answer"
        client.close()

    asyncio.run(asyncio.wait_for(run(), 600))
    assert ended == ["Slow"]
