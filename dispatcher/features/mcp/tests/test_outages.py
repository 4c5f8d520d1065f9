"""The memory server of one chat without its tombstones, without Redis and without the store."""

from __future__ import annotations

import pytest

from dispatcher.features.mcp.tests.memory_server import Served, served
from tests.support.machine import free_port
from tests.support.world import World


def test_a_tombstone_file_that_cannot_be_read_ends_recall_and_not_the_server(talked: World) -> None:
    (talked.root / "state" / "forgotten.jsonl").write_text("broken\n")

    async def ask(server: Served) -> None:
        for name, arguments in (("memory_search", {"query": "boiler"}), ("memory_recent", {}), ("memory_history", {})):
            told = await server.call(name, **arguments)
            assert told.failed
            assert "nothing is recalled until then" in told.text
        (talked.root / "state" / "forgotten.jsonl").unlink()
        assert "4711" in await server.search("boiler")

    served(talked, ask)


def test_without_a_store_the_release_is_told(talked: World) -> None:
    async def ask(server: Served) -> None:
        assert "4711" in await server.search("boiler")
        facts = await server.call("memory_facts")
        assert facts.failed
        assert "DAY_STORE_URL=none switches it off" in facts.text

    served(talked, ask, day_store_url="none")

    async def broken(server: Served) -> None:
        found = await server.search("boiler")
        assert "4711" in found
        assert "no memory of the day: " in found
        listed = (await server.call("memory_history")).text
        assert "4711" in listed
        assert "no memory of the day: " in listed
        assert "secret" not in listed
        facts = await server.call("memory_facts")
        assert facts.failed
        assert "secret" not in found + facts.text, "the store's password"

    pytest.importorskip("psycopg")
    served(talked, broken, day_store_url=f"postgresql://u:secret@127.0.0.1:{free_port()}/none")
