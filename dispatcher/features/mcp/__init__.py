"""Memory as tools for Claude (Model Context Protocol)."""
