"""Messages for Claude: what memory adds, the call, the tags of the answer."""
