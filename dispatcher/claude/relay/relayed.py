"""A server of the dispatcher that one call of the Claude CLI reaches as an MCP server: a socket, and the file for `--mcp-config` that points to it.

What the CLI starts is mcp_relay.py, a small program without settings and secrets; the server itself is on the dispatcher's side of the socket.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import orjson

from dispatcher.claude.relay import mcp_relay
from shared.errors import InvalidInput

#: The Claude CLI replaces such a mark with a variable of its environment, anywhere in the file.
EXPANDED = "${"


def config_of(server: str, path: Path, missing: str) -> bytes:
    """The content of the file for `--mcp-config`: a server of this name, behind the socket `path`. InvalidInput for a path that the CLI would
    change; `missing` says what there is none of then."""
    command = [sys.executable, "-I", "-S", mcp_relay.__file__, str(path)]
    content = orjson.dumps({"mcpServers": {server: {"type": "stdio", "command": command[0], "args": command[1:]}}})
    if EXPANDED.encode() in content:
        raise InvalidInput(
            f"HMEM_STATE_DIR, or the path of this program, contains {EXPANDED}, which the Claude CLI would replace. "
            f"So {missing}. Rename the directory."
        )
    return content


def listen(path: Path) -> socket.socket:
    """A listening socket at this path, in a directory that is there."""
    listener = socket.socket(socket.AF_UNIX)
    inside = os.open(path.parent, os.O_PATH)  # a socket's address is limited to about a hundred characters
    try:
        listener.bind(f"/proc/self/fd/{inside}/{path.name}")
        listener.listen()
    except OSError:
        listener.close()
        raise
    finally:
        os.close(inside)
    return listener
