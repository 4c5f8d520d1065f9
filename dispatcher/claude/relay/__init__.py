"""Tools for the Claude CLI over MCP: a light relay that the CLI starts, and the servers behind it, which run in the dispatcher."""
