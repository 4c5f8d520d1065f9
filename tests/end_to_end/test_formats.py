"""What a newer version wrote is refused in a sentence, and nothing is changed."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from dispatcher.bots.telegram.bot import BotLease
from dispatcher.memory.store.tables import version
from nightly.archive.verification import verify
from nightly.imports.staging import StagedImport, StagedUnreadable
from nightly.night.progress import Reporter
from shared.config import installation
from shared.delivery.receiver import Receiver, handle
from shared.errors import FormatNewer, PublishFailed
from shared.release.manifest import FORMAT_VERSION
from shared.system.files import sha256_bytes
from shared.system.formats import NAME
from shared.wire import keys
from shared.wire.client import BOT, open_async_redis
from tests.support.day.health import ask
from tests.support.night.archives import archive
from tests.support.world import World

CHAT = "9912"
NEWER = orjson.dumps({"format": 99, "program": "9.9.9"})
SENTENCE = "has format 99, which hcli-memory 9.9.9 wrote; this program .* reads formats up to 1, so it changed nothing. Install"


def files(folder: Path) -> dict[str, bytes]:
    """Every file and its content."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_record_that_cannot_be_read_is_written_anew(light: World) -> None:
    light.night_dir.mkdir(mode=0o700)
    (light.night_dir / NAME).write_bytes(b"\x00 nothing")
    light.say("t1", "said on day 1")
    light.night()
    assert orjson.loads((light.night_dir / NAME).read_bytes()) == {"format": 1, "program": installation.version()}


@pytest.mark.parametrize("place", ["state", "memory", "night"])
def test_a_directory_of_a_newer_program_is_refused_and_left_alone(light: World, place: str) -> None:
    light.say("t1", "said on day 1")
    light.night()
    folder = light.root / place
    folder.mkdir(exist_ok=True, mode=0o700)
    (folder / NAME).write_bytes(NEWER)
    light.say("t2", "said on day 2")
    before = files(light.root)
    for command in (
        ("hmem", "run"),
        ("hmem", "memory", "list", CHAT),
        ("hmem-night", "run"),
        ("hmem", "search", CHAT, "day"),
    ):
        done = light.command(*command, check=False)
        assert done.returncode == FormatNewer.exit_code, command
        assert re.search(SENTENCE, done.stderr), done.stderr
    assert files(light.root) == before
    assert light.redis.exists("hcli:memory:t2:user")
    found = ask(light)[1]["formats"]
    assert (found.code, re.search(SENTENCE, f"{found.sentence} {found.fix}") is not None) == (51, True)


def test_the_receiver_refuses_a_memory_directory_of_a_newer_program(light: World) -> None:
    light.memory_dir.mkdir(mode=0o700)
    (light.memory_dir / NAME).write_bytes(NEWER)
    before = files(light.memory_dir)
    for request in ("begin 1", "verify 1 0", "rollback 1", "prune"):
        with pytest.raises(FormatNewer, match=SENTENCE):
            handle(Receiver(light.settings(), light.memory_dir), request)
    assert files(light.memory_dir) == before


def test_redis_of_a_newer_program_is_refused_and_left_alone(light: World) -> None:
    light.redis.set(keys.FORMAT, NEWER)
    light.say("t1", "said on day 1")
    for command in (("hmem", "run"), ("hmem-night", "run")):
        done = light.command(*command, check=False)
        assert done.returncode == FormatNewer.exit_code, command
        assert re.search(r"Redis \(REDIS_URL\) " + SENTENCE, done.stderr), done.stderr
    assert sorted(light.redis.keys()) == [b"hcli:mem:format", b"hcli:memory:t1:user"]
    assert ask(light)[1]["formats"].code == FormatNewer.exit_code


def test_the_bot_refuses_redis_of_a_newer_program(light: World) -> None:
    async def look() -> None:
        client = open_async_redis(light.settings().redis_url, BOT)
        try:
            await BotLease(client, "secret").refuse_newer()
        finally:
            await client.aclose()

    light.redis.set(keys.FORMAT, NEWER)
    with pytest.raises(FormatNewer, match=SENTENCE):
        asyncio.run(look())
    light.redis.delete(keys.FORMAT)
    asyncio.run(look())
    light.redis.rpush(keys.FORMAT, "of another type")
    asyncio.run(look())  # doctor's business: the bot goes on


def test_a_night_makes_no_release_that_the_dispatcher_cannot_read(light: World) -> None:
    light.redis.set(keys.FORMAT, orjson.dumps({"format": 1, "program": "0.0.9", "release": FORMAT_VERSION - 1}))
    light.say("t1", "said on day 1")
    with pytest.raises(PublishFailed, match=r"hcli-memory 0.0.9.*Upgrade the day host first"):
        light.night()
    assert light.redis.exists("hcli:memory:t1:user")
    assert not archive(light).exists()


def test_a_segment_of_a_newer_program_is_refused_and_never_repaired(light: World) -> None:
    light.say("t1", "said on day 1")
    light.night()
    segment = archive(light) / "seg-1.jsonl"
    (light.root / "mirror").mkdir()
    header, *lines = segment.read_bytes().splitlines(keepends=True)
    body = orjson.dumps(orjson.loads(header) | {"format": 99}) + b"\n" + b"".join(lines[:-1])
    end = {"kind": "end", "lines": len(lines), "sha256": sha256_bytes(body)}
    segment.write_bytes(body + orjson.dumps(end) + b"\n")
    for command in (("hmem-night", "verify"), ("hmem-night", "verify", "--repair")):
        done = light.command(*command, check=False, ARCHIVE_MIRROR=str(light.root / "mirror"))
        assert done.returncode == FormatNewer.exit_code, done.stderr
        assert "seg-1.jsonl has format 99, which a newer hcli-memory wrote" in done.stderr
    with pytest.raises(FormatNewer):
        verify(light.settings(), Reporter(quiet=True))
    assert segment.read_bytes() == body + orjson.dumps(end) + b"\n"


def test_a_staged_import_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    content = orjson.dumps({"kind": "import", "format": 99, "source": "jsonl"}) + b"\n"
    path = tmp_path / f"{sha256_bytes(content).removeprefix('sha256:')}.jsonl"
    path.write_bytes(content)
    with pytest.raises(StagedUnreadable, match="a newer program wrote it"):
        StagedImport(path)
    assert path.read_bytes() == content


def test_a_day_store_of_a_newer_program_is_refused_and_named(light: World) -> None:
    light.command("hmem", "memory", "add", CHAT, "lives in Ghent")
    store = light.root / "state" / "day-store.sqlite"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(f"UPDATE {version.name} SET version_num = '9999'")
    before = store.read_bytes()
    done = light.command("hmem", "memory", "list", CHAT, check=False)
    assert done.returncode == 27
    assert "has version 9999, but this program supports version" in done.stderr
    assert store.read_bytes() == before
