"""Who the Claude CLI asks before it runs a tool (`--permission-prompt-tool`): an MCP server with one tool, for one call, in the dispatcher's process.

    CLI ── mcp_relay.py ── socket ── this ── decide(tool, its input)

It speaks as much of MCP as that takes, in lines of JSON, so that no answer loads a library for it. Only the first connection is served: the CLI
connects at its start, before any tool runs, so a program that a tool starts finds no socket. Whatever goes wrong is a refusal: the CLI takes an
answer that it cannot read, and a server that is gone, for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson

from dispatcher.claude.relay.relayed import config_of, listen
from shared.system.files import write_atomic
from shared.text.logs import Logger
from shared.wire.json import dumps, record_of

log = Logger()

SERVER, TOOL = "hmem_approval", "ask"
#: As `--permission-prompt-tool` names it. The model is not offered this tool.
APPROVER = f"mcp__{SERVER}__{TOOL}"
#: The version of MCP that is spoken, unless the CLI names another one: nothing here differs between them.
PROTOCOL = "2025-11-25"
#: No request is larger.
MOST_BYTES = 16 << 20
#: Seconds that questions get to be withdrawn when the call ends.
END_SECONDS = 3.0
BROKEN = "The permission could not be asked for, so this tool was not run. Tell the person that something is wrong with the questions."

#: Gets a tool and its input; "" if it may run, else why not, for Claude.
Decide = Callable[[str, dict[str, Any]], Awaitable[str]]

_SCHEMA = {"type": "object", "properties": {"tool_name": {"type": "string"}, "input": {"type": "object"}}}


class _UnknownMethod(Exception):
    """A request for something that this server does not have."""


@asynccontextmanager
async def approval_server(decide: Decide, directory: Path) -> AsyncIterator[Path]:
    """Serves while the call runs; the file for `--mcp-config`. OSError or InvalidInput if it cannot be started."""
    name = uuid4().hex
    path, config = directory / f"{name}.sock", directory / f"mcp-{name}.json"
    content = config_of(SERVER, path, "no tool is asked for")
    server = _ApprovalServer(decide, path)
    listening = await asyncio.start_unix_server(server.connected, sock=listen(path), limit=MOST_BYTES)
    try:
        write_atomic(config, content)
        yield config
    finally:
        listening.close()
        config.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        await server.withdraw()


class _ApprovalServer:
    def __init__(self, decide: Decide, path: Path) -> None:
        self._decide, self._path = decide, path
        self._serving: asyncio.Task[None] | None = None
        self._deciding = set[asyncio.Task[None]]()

    async def withdraw(self) -> None:
        """End what is being asked."""
        tasks = [*self._deciding, *([self._serving] if self._serving else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._serving is None:
                self._serving = asyncio.current_task()
                self._path.unlink(missing_ok=True)
                await self._serve(reader, writer)
        except (OSError, ValueError) as error:  # the CLI has ended, or sent a line that is too long
            log.warning("the questions about tools end", reason=str(error) or type(error).__name__)
        except asyncio.CancelledError:  # `withdraw`; the stream's own callback would report it as a fault
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = record_of(line)
            if "id" not in request:  # a notification, or nothing that we can read
                continue
            task = asyncio.create_task(self._respond(request, writer))  # there may be several questions at once
            self._deciding.add(task)
            task.add_done_callback(self._deciding.discard)

    async def _respond(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            response["result"] = await self._result(request.get("method"), _object(request.get("params")))
        except _UnknownMethod:
            response["error"] = {"code": -32601, "message": "Method not found"}
        with suppress(OSError):
            writer.write(dumps(response) + b"\n")
            await writer.drain()

    async def _result(self, method: object, given: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            version = given.get("protocolVersion")
            return {
                "protocolVersion": version if isinstance(version, str) else PROTOCOL,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": SERVER, "version": "1"},
            }
        if method == "tools/list":
            return {"tools": [{"name": TOOL, "description": "Asks in the chat.", "inputSchema": _SCHEMA}]}
        if method == "ping":
            return {}
        if method != "tools/call":
            raise _UnknownMethod
        verdict = await self._verdict(_object(given.get("arguments")))
        return {"content": [{"type": "text", "text": orjson.dumps(verdict).decode()}]}

    async def _verdict(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As the CLI wants it: an allowed tool runs with `updatedInput`, which is what people were shown."""
        tool, given = asked.get("tool_name"), asked.get("input")
        why_not = BROKEN
        if isinstance(tool, str) and tool and isinstance(given, dict):
            try:
                orjson.dumps(given)  # what could not be handed back cannot be allowed
                why_not = await self._decide(tool, given)
                if not why_not:
                    return {"behavior": "allow", "updatedInput": given}
            except Exception:  # whatever it is, the tool does not run
                log.exception("a question about a tool failed")
                why_not = BROKEN
        return {"behavior": "deny", "message": why_not}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
