"""The file that leads Claude to the memory server of a chat, and the settings that the server gets."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from dispatcher.features.mcp import command, server
from dispatcher.features.mcp.claude_server import (
    BY_PIPE,
    HANDED_ON,
    READING,
    MemoryServer,
    allowed_tools,
    environment,
    written,
)
from shared.config.settings import load_settings, setting_fields
from shared.embedding.ollama.settings import OllamaSettings
from shared.errors import InvalidInput
from tests.support.machine import wait_for
from tests.support.world import World


def test_the_file_leads_to_the_server_and_holds_nothing_of_ours(light: World) -> None:
    settings = light.settings(telegram_bot_token="12:bot", memory_mcp="add", day_store_url="postgresql://u:pw@h/d")
    with closing(MemoryServer(settings, "-100123", light.root)) as server:
        assert server.config.stat().st_mode & 0o777 == 0o600
        told = json.loads(server.config.read_text())["mcpServers"]["memory"]
        (place,) = (Path(word) for word in told["args"] if word.endswith(".sock"))
        assert place.is_socket()
    for held in ("test-secret", "12:bot", "RESULT_HMAC_KEY", "redis://", "postgresql", '"env"', "-100123"):
        assert held not in json.dumps(told), held
    assert not place.exists()
    assert not server.config.exists()
    for name in HANDED_ON:
        field = setting_fields()[name]
        assert "Secret" not in str(field.annotation), name
        assert field.repr, f"{name} may hold a password, and stands in an environment"
    assert allowed_tools(settings)[-1] == "mcp__memory__memory_add"
    assert allowed_tools(light.settings()) == tuple(f"mcp__memory__{name}" for name in READING)


def test_the_server_has_the_settings_of_the_dispatcher(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    config = light.root / "hmem.toml"
    config.write_text('OLLAMA_TIMEOUT = 7.5\nCHAT_TIMEZONE = "Europe/Berlin"\nLOG_JSON = true\nEMBEDDER = "ollama"\n')
    monkeypatch.setenv("HMEM_CONFIG", str(config))
    ours = light.settings(
        day_store_url="sqlite:////tmp/x y.sqlite", fastembed_cache_path=light.root, embedder="local", index_name="other"
    )
    for name, value in (environment(ours) | written(ours, BY_PIPE)).items():
        monkeypatch.setenv(name, value)
    theirs = load_settings()
    assert (theirs.chat_timezone, theirs.of(OllamaSettings).ollama_timeout) == ("Europe/Berlin", 7.5)
    assert written(theirs, (*HANDED_ON, *BY_PIPE)) == written(ours, (*HANDED_ON, *BY_PIPE))
    assert theirs.log_json
    assert theirs.result_hmac_key is None


def test_a_place_that_the_cli_would_replace_gets_no_tools(light: World) -> None:
    odd = light.root / "${HOME}"
    odd.mkdir()
    with pytest.raises(InvalidInput, match="Claude gets no memory tools"):
        MemoryServer(light.settings(), "9912", odd)
    assert not list(odd.iterdir())


def test_a_chat_is_said_to_be_new_beside_the_first_answer(
    light: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Redis that hangs once held it up for half a minute."""
    serving = Event()
    monkeypatch.setattr(command, "start", lambda _: light.settings())
    monkeypatch.setattr(command, "new_chat", lambda *_: ["it is new"] if serving.wait(10) else [])
    monkeypatch.setattr(server, "serve", lambda *_: serving.set())
    command.mcp("9913")
    wait_for(lambda: capsys.readouterr().err == "note: it is new\n", "the note")
