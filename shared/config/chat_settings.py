"""Settings of what people see in the chat: how answers appear, and what the bot understands beside text."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from shared.config import tools
from shared.config.tools import ChatTools
from shared.config.values import accepted_by


class ChatSettings(BaseModel):
    """A part of `Settings`."""

    stream: bool = Field(
        True,
        description="show an answer while it is written: in private chats as a draft, elsewhere by edits; false: only when it is complete",
    )
    media_bytes: int = Field(
        20_000_000,
        ge=1_000,
        le=256_000_000,
        description="largest file that the bot fetches, in bytes; Telegram gives bots 20 MB at most, a Bot API server of one's own more",
    )

    claude_allowed_tools: str | None = Field(
        None,
        description="passed on as --allowedTools; unset: no tools. Built-in tools must be named, and Read is always denied",
    )
    chat_tools: Annotated[str, accepted_by(tools.chat_tools)] = Field(
        "",
        description="allowed tools of single chats, instead of CLAUDE_ALLOWED_TOOLS: 9912=WebFetch,Bash(git *); -1001234= (that chat: none)",
    )
    approve_tools: Annotated[str, accepted_by(tools.approved_tools)] = Field(
        "",
        description="tools that are asked for in the chat before they run, unless they are allowed there: Bash,WebFetch; empty: none are",
    )

    def tools_of(self, chat_id: str) -> ChatTools:
        """What Claude may use in this chat, and what it asks for."""
        own = tools.chat_tools(self.chat_tools).get(chat_id)
        return tools.tools_of((self.claude_allowed_tools or "") if own is None else own, self.approve_tools)

    def own_tools_of(self, chat_id: str) -> ChatTools:
        """Only what CHAT_TOOLS names for this chat."""
        return ChatTools(tools.chat_tools(self.chat_tools).get(chat_id, ""))
