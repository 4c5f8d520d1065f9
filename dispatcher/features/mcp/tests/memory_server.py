"""The memory server of one chat as Claude would start it, and the SDK's own client at its other end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dispatcher.features.mcp.claude_server import BY_PIPE, environment, written
from tests.support.world import BINARIES, World

if TYPE_CHECKING:
    from mcp.client.client import Client

Value = TypeVar("Value")


@dataclass(frozen=True)
class Told:
    """What a tool answered."""

    text: str
    failed: bool


@dataclass(frozen=True)
class Served:
    """A client with its server."""

    client: Client
    log: Path

    async def call(self, name: str, **arguments: Any) -> Told:
        result = await self.client.call_tool(name, arguments)
        (block,) = result.content
        assert block.type == "text"
        return Told(block.text, result.is_error)

    async def search(self, query: str, **more: Any) -> str:
        """Asks for it; the test fails if that is refused."""
        told = await self.call("memory_search", query=query, **more)
        assert not told.failed, f"{told.text}\n{self.log.read_text()}"
        return told.text


def command_of(world: World, chat_id: str, **settings: Any) -> tuple[list[str], dict[str, str]]:
    """(command line, variables) of the server; what the dispatcher gives it by a pipe (tests/dispatcher/claude/test_memory_tools.py) is among
    the variables here.
    """
    made = world.settings(**settings)
    variables = environment(made) | written(made, BY_PIPE)
    return [str(BINARIES / "hmem"), "mcp", "--", chat_id], variables


@asynccontextmanager
async def serving(world: World, chat_id: str = "9912", **settings: Any) -> AsyncIterator[Served]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    (command, *arguments), variables = command_of(world, chat_id, **settings)
    given = {"HOME": str(world.root)} | variables
    parameters = StdioServerParameters(command=command, args=arguments, env=given, cwd=world.root)
    log = world.root / "memory-server.log"
    with log.open("a", encoding="utf-8") as stream:
        async with Client(stdio_client(parameters, errlog=stream)) as client:
            yield Served(client, log)
    assert "Traceback" not in log.read_text(encoding="utf-8")


def served(world: World, ask: Callable[[Served], Awaitable[Value]], chat_id: str = "9912", **settings: Any) -> Value:
    """Start the server, ask it, end it."""

    async def run() -> Value:
        async with serving(world, chat_id, **settings) as server:
            return await ask(server)

    return asyncio.run(run())


def searched(world: World, queries: Sequence[str], chat_id: str = "9912", **settings: Any) -> list[str]:
    """What the server of a chat answers to each of these questions."""

    async def ask(server: Served) -> list[str]:
        return [await server.search(query) for query in queries]

    return served(world, ask, chat_id, **settings)
