"""Which tools Claude may use in a chat: the settings CLAUDE_ALLOWED_TOOLS, CHAT_TOOLS and APPROVE_TOOLS, read as the Claude CLI reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_CHAT = re.compile(r"[^\s;=()][^;=()]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")
_EXAMPLE = "write it like 9912=WebFetch,Bash(git *); -1001234="


@dataclass(frozen=True)
class ChatTools:
    """`allowed`: permissions as `--allowedTools` takes them. `asked`: tools of APPROVE_TOOLS that are not allowed as a whole; `every_use`: those of
    them of which nothing is allowed, so that each use is asked for, also one that the CLI itself takes for harmless."""

    allowed: str = ""
    asked: tuple[str, ...] = ()
    every_use: tuple[str, ...] = ()

    def asks_for(self, tool: str) -> bool:
        """Whether people are asked before this tool runs; the name of a server stands for all of its tools."""
        return any(_covers(one, tool) for one in self.asked)


def split_outside(text: str, separators: str) -> Iterator[str]:
    """The parts between separators that are not inside brackets: a permission may contain them, as `Bash(git add, *)`."""
    part, depth = "", 0
    for character in text:
        if character in separators and not depth:
            yield part.strip()
            part = ""
            continue
        depth = max(0, depth + (character == "(") - (character == ")"))
        part += character
    yield part.strip()


def permissions(allowed: str) -> list[str]:
    """The single permissions of a list: `Bash(git *), Skill` has two."""
    return [one for one in split_outside(allowed, ", \t\n") if one]


def chat_tools(value: str) -> dict[str, str]:
    """Chat id → its allowed tools, "" for none; ValueError with an example."""
    found: dict[str, str] = {}
    for entry in filter(None, split_outside(value, ";")):
        chat, equals, tools = entry.partition("=")
        chat = chat.strip()
        if not equals or not _CHAT.fullmatch(chat) or tools.count("(") != tools.count(")"):
            raise ValueError(f"{entry!r} names no chat and its tools; {_EXAMPLE}")
        if any("=" in one.partition("(")[0] for one in split_outside(tools, ", \t\n")):
            raise ValueError(f"{entry!r} names a second chat: separate chats with a semicolon; {_EXAMPLE}")
        if chat in found:
            raise ValueError(f"chat {chat} is there twice; {_EXAMPLE}")
        found[chat] = tools.strip()
    return found


def approved_tools(value: str) -> tuple[str, ...]:
    """The names of a comma-separated list; ValueError for one that is not the name of a tool."""
    names = tuple(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not the name of a tool; write names separated by commas, such as Bash,WebFetch"
            )
    return names


def tools_of(allowed: str, approve: str) -> ChatTools:
    """The tools of a chat with these permissions, and these that are asked for."""
    names = permissions(allowed)
    asked = [one for one in approved_tools(approve) if not any(_covers(_whole(name), one) for name in names)]
    partly = {name.partition("(")[0] for name in names}
    return ChatTools(allowed, tuple(asked), tuple(one for one in asked if one not in partly))


def _whole(permission: str) -> str:
    """The tool that a permission allows as a whole; "" for a part of one."""
    return permission.removesuffix("(*)").removesuffix("__*") if "(" not in permission.removesuffix("(*)") else ""


def _covers(name: str, tool: str) -> bool:
    return bool(name) and (tool == name or (name.startswith("mcp__") and tool.startswith(f"{name}__")))
