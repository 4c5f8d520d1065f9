"""Record what copies and encryption are worth: writes docs/recordings/copies.txt.

.venv/bin/python scripts/record_copies.py     (it needs redis-server, restic and rsync; a minute or two)
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from redis import Redis  # noqa: E402 - after the path

from nightly.archive.segments import read_segment  # noqa: E402
from scripts.record_buttons import record  # noqa: E402
from shared.search.recall import OpenRelease  # noqa: E402
from shared.search.types import Query  # noqa: E402
from shared.system.keys import sealing  # noqa: E402
from tests.support.day.health import redis_server, url_of  # noqa: E402
from tests.support.machine import wait_for  # noqa: E402
from tests.support.world import World  # noqa: E402

TARGET = ROOT / "docs" / "recordings" / "copies.txt"
HEAD = """\
What the copies of a host are worth, and what encryption hides in them, made by scripts/record_copies.py: a real dispatcher
(with a stand-in for the CLI), Redis, rsync and restic, and the shipped embedding model. Two chats say four messages and two
facts; the words are searched in every file of each directory, and so are the vectors of what was said, as float16 and
float32.
"""
SAID = {
    "9912": ("Where did I put the bicycle? It is in the cellar of Marigold Street.", "The bicycle is called Rosinante"),
    "777": ("My samovar came from Yekaterinburg with grandmother.", "The samovar holds five litres"),
}
WORDS = (b"bicycle", b"cellar", b"marigold", b"rosinante", b"samovar", b"yekaterinburg", b"litres")
PLACES = ("state", "journal", "night", "mirror", "memory")


def installation(root: Path, url: str, *, encrypted: bool) -> World:
    """A host with a second copy by day, a mirror of the archive, and a key if it encrypts."""
    root.mkdir()
    for name in ("journal", "mirror"):
        (root / name).mkdir(mode=0o700)
    client = Redis.from_url(url)
    client.flushall()
    places = {"JOURNAL": root / "journal", "ARCHIVE_MIRROR": root / "mirror", "BACKUP_PASSWORD_FILE": root / "password"}
    more = {"JOURNAL_SECONDS": "0.2", "CONSOLIDATION_INTERVAL": "0.3", "LOG_JSON": "false"}
    world = World(root, client, url, {name: str(path) for name, path in places.items()} | more)
    os.environ.pop("ENCRYPT_KEY_FILE", None)
    if encrypted:
        key = root / "keys" / "encrypt.key"
        world.command("hmem", "key", "new", str(key))
        world.environment["ENCRYPT_KEY_FILE"] = os.environ["ENCRYPT_KEY_FILE"] = str(key)
    sealing.configure(world.settings(), "night")
    return world


def day(world: World, number: int) -> None:
    """What people say on one day; the dispatcher is stopped afterwards."""
    dispatcher = world.start_dispatcher()
    for chat_id, (message, fact) in SAID.items():
        world.enqueue(f"d{number}c{chat_id}", message, chat_id=chat_id)
        world.enqueue(f"d{number}f{chat_id}", f"/memory add {fact} {number}", chat_id=chat_id)
    for chat_id in SAID:
        for task in (f"d{number}c{chat_id}", f"d{number}f{chat_id}"):
            wait_for(lambda task=task: world.redis.exists(f"hcli:mem:done:{task}"), task)  # type: ignore[misc]
    time.sleep(3)  # consolidation, and the journal's next looks
    dispatcher.stop(signal.SIGTERM)
    world.dispatchers.clear()


def files(folder: Path) -> Iterator[bytes]:
    return (path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def vectors(world: World) -> list[bytes]:
    """Pieces of the vectors of what was said, as they would lie on a disk."""
    with closing(OpenRelease(world.settings(), world.memory_dir / "current")) as release:
        release.open_vectors()
        found: Any = [release._backend._chat(chat) for chat in SAID]  # type: ignore[attr-defined]
    return [row.astype(kind).tobytes()[:48] for chat in found for row in chat.vectors for kind in ("<f2", "<f4")]


def scan(world: World) -> str:
    needles = vectors(world)
    lines = [f"  {'directory':12}{'files':>6}{'bytes':>12}   with words   with vectors"]
    for name in PLACES:
        contents = list(files(world.root / name))
        words = sum(any(word in one.lower() for word in WORDS) for one in contents)
        near = sum(any(needle in one for needle in needles) for one in contents)
        lines.append(f"  {name:12}{len(contents):6}{sum(map(len, contents)):12,}{words:13}{near:15}")
    return "\n".join(lines)


def scans(url: str, root: Path) -> tuple[str, World]:
    told, world = [], None
    for label in ("off", "on"):
        world = installation(root / label, url, encrypted=label == "on")
        day(world, 1)
        world.night()
        day(world, 2)
        told.append(f"Encryption {label}, after a day, a night and another day:\n\n{scan(world)}")
    assert world is not None
    return "\n\n".join(told), world


def forgetting(world: World) -> str:
    """A copy of all directories from before; then the chat is forgotten; then the copy is read with today's key."""
    stale = world.root / "stale"
    for name in PLACES:
        shutil.copytree(world.root / name, stale / name, symlinks=True)
    (done,) = json.loads(world.command("hmem", "forget", "--chat=9912", "--yes", "--json", check=False).stdout)
    sealing.configure(world.settings(), "night")
    lines = [f"  forgotten: {'complete' if done['complete'] else 'not complete: ' + str(done.get('pending'))}", ""]
    for chat, question in (("9912", "where is the bicycle?"), ("777", "where is the samovar from?")):
        lines.append(f"  chat {chat}, read from the copy with today's key:")
        kinds = [
            line for one in sorted((stale / "night" / "archive").glob("seg-*.jsonl")) for line in read_segment(one)
        ]
        read = [
            line for line in kinds if line["kind"] == "turn" and f'"chat_id":"{chat}"' in line["value"].replace(" ", "")
        ]
        lines.append(f"    archive     {len(read)} turns")
        settings = world.settings(hmem_memory_dir=stale / "memory")
        with closing(OpenRelease(settings, stale / "memory" / "current")) as release:
            hits = release.recall(Query(chat, question, 5)).hits
            lines.append(f"    release     {len(hits)} recalled, summary {'yes' if release.summary(chat) else 'none'}")
        lines.append(f"    day store   {_stored(stale, chat)} of its turns and memories")
    return "\n".join(lines)


def _stored(stale: Path, chat: str) -> int:
    from dispatcher.memory.store.database import Database
    from dispatcher.memory.store.memories import Memories
    from dispatcher.memory.store.turns import Turns

    with closing(Database(None, stale / "state")) as database:
        return sum(1 for _ in Turns(database).every(chat)) + len(Memories(database).list(chat))


@contextmanager
def empty_host(like: World, folder: Path) -> Iterator[World]:
    """Another host, with the owner's key of the first one and nothing else."""
    folder.mkdir()
    with redis_server(folder / "redis", "--save", "") as client:
        host = World(folder, client, url_of(client), dict(like.environment))
        host.environment.pop("ARCHIVE_MIRROR")
        key = folder / "keys" / "encrypt.key"
        key.parent.mkdir(mode=0o700)
        shutil.copy(like.environment["ENCRYPT_KEY_FILE"], key)
        host.environment["ENCRYPT_KEY_FILE"] = os.environ["ENCRYPT_KEY_FILE"] = str(key)
        yield host


def timed(title: str, *commands: Callable[[], str]) -> str:
    began = time.perf_counter()
    told = [one() for one in commands]
    seconds = time.perf_counter() - began
    return "\n".join(
        [f"  {title}: {seconds:.1f} s", *(f"    {line}" for text in told for line in text.strip().splitlines())]
    )


def drills(world: World) -> str:
    """On empty hosts: the day from the journal, the archive from the mirror, everything from a backup."""
    world.command("hmem", "backup", "--new-password", str(world.root / "password"))
    world.command("hmem", "backup", str(world.root / "repository"), "--init")
    parts = [
        timed(
            "hmem backup --verify",
            lambda: world.command("hmem", "backup", str(world.root / "repository"), "--verify").stdout,
        )
    ]
    with empty_host(world, world.root / "from-journal") as host:
        parts.append(timed("hmem restore --day, from the journal",
                           lambda: host.command("hmem", "restore", "--day").stdout))  # fmt: skip
    with empty_host(world, world.root / "from-mirror") as host:
        host.environment["ARCHIVE_MIRROR"] = str(world.root / "mirror")
        host.night_dir.mkdir(mode=0o700)
        parts.append(timed("hmem key restore keyring.json, then hmem-night verify --repair, from the mirror",
                           lambda: host.command("hmem", "key", "restore", str(world.root / "mirror" / "keyring.json")).stdout,
                           lambda: host.command("hmem-night", "verify", "--repair").stdout))  # fmt: skip
    with empty_host(world, world.root / "from-backup") as host:
        parts.append(timed("hmem restore FROM, from the backup",
                           lambda: host.command("hmem", "restore", str(world.root / "repository")).stdout))  # fmt: skip
    return "\n\n".join(parts).replace(str(world.root), "…")


def record_all(url: str, root: Path) -> str:
    told, world = scans(url, root)
    parts = [HEAD.rstrip(), "1. Byte scans\n\n" + told]
    parts.append("2. Drills on empty hosts that have the owner's key and nothing else\n\n" + drills(world))
    os.environ["ENCRYPT_KEY_FILE"] = world.environment["ENCRYPT_KEY_FILE"]
    sealing.configure(world.settings(), "night")
    parts.append("3. A chat is forgotten; a copy of all directories from before\n\n" + forgetting(world))
    return "\n\n".join(parts).replace(str(root), "…") + "\n"


if __name__ == "__main__":
    record(TARGET, record_all)
