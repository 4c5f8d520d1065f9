"""The memory server of one chat in the test's own process, and the SDK's own client at its other end; test_memory_tools.py has the program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.features.mcp.tools import ChatMemory
from tests.support.world import World

if TYPE_CHECKING:
    from mcp.client.client import Client


@dataclass(frozen=True)
class Told:
    """What a tool answered."""

    text: str
    failed: bool


@dataclass(frozen=True)
class Served:
    """A client with its server."""

    client: Client

    async def call(self, name: str, **arguments: Any) -> Told:
        result = await self.client.call_tool(name, arguments)
        (block,) = result.content
        assert block.type == "text"
        assert "failed on our side" not in block.text
        return Told(block.text, result.is_error)

    async def search(self, query: str, **more: Any) -> str:
        """Asks for it; the test fails if that is refused."""
        told = await self.call("memory_search", query=query, **more)
        assert not told.failed, told.text
        return told.text


def served(world: World, ask: Callable[[Served], Awaitable[None]], chat_id: str = "9912", **settings: Any) -> None:
    """Start the server, ask it, end it."""
    from mcp.client.client import Client

    from dispatcher.features.mcp.server import memory_server

    async def run() -> None:
        made = world.settings(**settings)
        with closing(ChatMemory(made, chat_id)) as memory:
            async with Client(memory_server(made, memory)) as client:
                await ask(Served(client))

    asyncio.run(run())
