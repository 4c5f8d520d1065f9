"""An MCP server with one resource, one tool and one prompt, as an owner may configure one; it writes its start down beside itself.

Arguments: the file that gets a line at each start, and the word that resource, tool and prompt give away.
"""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

STARTED, WORD = sys.argv[1:]
server = MCPServer("notes")


@server.resource("note://one", mime_type="text/plain")
def note() -> str:
    return WORD


@server.tool()
def look_up() -> str:
    """Look it up."""
    return WORD


@server.prompt()
def greet() -> str:
    """Say hello."""
    return WORD


if __name__ == "__main__":
    with Path(STARTED).open("a") as log:
        log.write("started\n")
    server.run()
