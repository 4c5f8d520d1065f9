"""The settings about Claude's tools: which permissions a chat has, and which tools are asked for."""

from __future__ import annotations

import pytest

from shared.config.settings import load_settings
from shared.config.tools import ChatTools, approved_tools, chat_tools, permissions, tools_of
from shared.errors import SettingsError


def test_permissions_are_split_outside_of_brackets() -> None:
    split = ["Bash(git log, *)", "Edit", "WebFetch(domain:a.org)"]
    assert permissions("Bash(git log, *) Edit,WebFetch(domain:a.org)") == split
    assert permissions("") == []


def test_chats_with_tools_of_their_own() -> None:
    written = "9912=WebFetch, Bash(a; b=c) ; -1001234= ;"
    assert chat_tools(written) == {"9912": "WebFetch, Bash(a; b=c)", "-1001234": ""}
    assert chat_tools("") == {}


@pytest.mark.parametrize(
    "written",
    [
        "9912",
        "=Bash",
        "9912=Bash(x",
        "9912=Bash; 9912=Edit",
        "Bash, Edit",
        "9914=Bash, 9915=Read",
        "9914=Bash 9915=Read",
    ],
)
def test_what_names_no_chat_is_refused(written: str) -> None:
    with pytest.raises(SettingsError, match=r"CHAT_TOOLS.*9912=WebFetch"):
        load_settings(chat_tools=written)


def test_names_of_tools_that_are_asked_for() -> None:
    assert approved_tools(" Bash, WebFetch,,mcp__core__look_up, Bash") == ("Bash", "WebFetch", "mcp__core__look_up")
    with pytest.raises(SettingsError, match=r"APPROVE_TOOLS.*such as Bash"):
        load_settings(approve_tools="Bash(git *)")


@pytest.mark.parametrize(
    ("allowed", "approve", "asked", "every_use"),
    [
        ("", "Bash", ("Bash",), ("Bash",)),
        ("Bash", "Bash", (), ()),
        ("Bash(*)", "Bash,Edit", ("Edit",), ("Edit",)),
        ("Bash(git *)", "Bash", ("Bash",), ()),
        ("mcp__core", "mcp__core__a", (), ()),
        ("mcp__core__*", "mcp__core__a,mcp__corex__a", ("mcp__corex__a",), ("mcp__corex__a",)),
        ("WebFetch", "", (), ()),
    ],
)
def test_what_is_allowed_is_not_asked_for(allowed: str, approve: str, asked: tuple[str], every_use: tuple[str]) -> None:
    assert tools_of(allowed, approve) == ChatTools(allowed, asked, every_use)


def test_a_server_stands_for_its_tools() -> None:
    tools = tools_of("", "Bash,mcp__core")
    names = ("Bash", "mcp__core__a", "mcp__corex__a", "Bashful", "Edit")
    assert [name for name in names if tools.asks_for(name)] == ["Bash", "mcp__core__a"]


def test_a_chat_has_its_own_or_those_of_all() -> None:
    settings = load_settings(claude_allowed_tools="WebFetch", chat_tools="9=Bash; 8=", approve_tools="Bash")
    assert settings.tools_of("7") == ChatTools("WebFetch", ("Bash",), ("Bash",))
    assert settings.tools_of("8") == ChatTools("", ("Bash",), ("Bash",))
    assert settings.tools_of("9") == ChatTools("Bash", (), ())
