"""The oracle: a shadow of all that was acknowledged, and whether an installation still keeps its promises to it.

It reads files and Redis by itself, with as little of the product's code as it can, so that a fault in how the product reads its archive is
no fault of the judge. `judge` may be asked at any instant, also while a night runs and turns are written; `at_rest` asks for more: the
last night has ended well, nobody writes, so all that was said is in the release in use and nowhere else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from nightly.archive.segments import RawRecord, Segment
from shared.config.kinds import place_of
from shared.errors import HmemError
from shared.release.integrity import private_copy
from shared.release.manifest import Manifest, current_release, verify
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.files import PrivateDir
from shared.turns.chunk import Chunk
from shared.turns.chunking import chunks_of
from shared.turns.records import RecordRefused, Turn
from tests.chaos.harness.report import Outcome
from tests.support.night.archives import chunks_in
from tests.support.night.indexes.chat_tables import counted
from tests.support.world import World

#: Turns of which recall itself is asked, at rest: the newest, the oldest and some between.
ASKED_TURNS = 8


@dataclass
class Shadow:
    """Every value that a key was given, in order. `tried` may or may not have arrived: its reply was never seen."""

    said: dict[bytes, list[bytes]] = field(default_factory=dict)
    tried: dict[bytes, list[bytes]] = field(default_factory=dict)
    archived: set[str] = field(default_factory=set)  # records once seen in the archive: it never loses one
    forgotten: dict[str, bytes] = field(default_factory=dict)  # turn id → words of it that are to be nowhere at rest
    released: bool = False  # a release was once in use: from then on there is always one

    def acknowledged(self, key: bytes, value: bytes) -> None:
        self.said.setdefault(key, []).append(value)

    def acknowledge(self, world: World, key: str) -> bool:
        """Remember what a dispatcher has written under a key; whether there is anything."""
        value = world.redis.get(key)
        if isinstance(value, bytes):
            self.acknowledged(key.encode(), value)
        return value is not None

    def say(self, world: World, task_id: str, content: str, **more: Any) -> bytes:
        """Write a turn as the dispatcher would, and remember it; its key. `more`: chat_id, role, timestamp, …"""
        values: dict[str, Any] = {"role": "user", "chat_id": "9912", "timestamp": 1_707_500_000.0, **more}
        turn = Turn(task_id=task_id, content=content, **values)
        return self.put(world, f"hcli:memory:{turn.turn_id}".encode(), turn.to_json())

    def put(self, world: World, key: bytes, value: bytes) -> bytes:
        """Write any bytes under a key, and remember them."""
        self.tried.setdefault(key, []).append(value)
        world.redis.set(key, value)
        self.acknowledged(key, value)
        self.tried[key].pop()
        return key

    def say_and_forget(self, world: World, task_id: str, words: str, **more: Any) -> None:
        """Write a turn of which nothing may be left at rest; the tombstone is the caller's."""
        turn = Turn(task_id=task_id, content=words, **{"role": "user", "timestamp": 1_707_500_000.0, **more})
        key = f"hcli:memory:{turn.turn_id}".encode()
        world.redis.set(key, turn.to_json())
        self.tried.setdefault(key, []).append(turn.to_json())
        self.forgotten[turn.turn_id] = words.encode()

    def last(self) -> dict[bytes, bytes]:
        """The last acknowledged value of each key."""
        return {key: values[-1] for key, values in list(self.said.items())}

    def texts_and_chats(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """Turn id → texts of all chunks that any value of it ever had; and the chats that it was ever said in."""
        texts, chats = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for key, values in [*self.said.items(), *self.tried.items()]:
            for turn in _turns((key, value) for value in values):
                texts[turn.turn_id] |= {chunk.text for chunk in chunks_of(turn)}
                chats[turn.turn_id].add(turn.chat_id)
        return texts, chats


def _turns(records: Iterable[tuple[bytes, bytes]]) -> Iterable[Turn]:
    for key, value in records:
        try:
            yield Turn.parse(key, value)
        except RecordRefused:
            continue  # quarantined: kept, and never recalled


@dataclass
class Kept:
    """What the archive holds: per key the value of the highest run (None: its turn is another chat's), and every record's hash."""

    values: dict[bytes, bytes] = field(default_factory=dict)
    hashes: set[str] = field(default_factory=set)
    turns: dict[str, Turn] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        if line["kind"] == "erased":
            self.hashes.add(line["sha256"])
        if line["kind"] not in ("turn", "quarantine"):
            return
        raw = RawRecord.from_json(line)
        self.values[raw.key] = raw.value
        self.hashes.add(raw.sha256)
        for turn in _turns([(raw.key, raw.value)]):
            known = self.turns.get(turn.turn_id)
            if known is None or known.chat_id == turn.chat_id:  # a turn never moves to another chat
                self.turns[turn.turn_id] = turn


def read_kept(directory: Path, names: Iterable[str] | None = None) -> Kept:
    """The archive, or of it only the segments named, in order of the runs."""
    kept = Kept()
    present = [path.name for path in directory.glob("seg-*.jsonl")] if names is None else names
    for name in sorted((n for n in present if n.startswith("seg-")), key=lambda n: int(n[4:-6])):
        for line in Segment(directory / name):
            kept.add(line)
    return kept


def judge(world: World, shadow: Shadow, *, at_rest: bool = False, vectors: bool = False, tidy: bool = True) -> Outcome:
    """What is lost, doubled or torn now. `vectors`: the vector index is read as well (slower). Not `tidy`: the last night went well
    in spite of an error, so something half-made may still lie about for the next one to remove."""
    found = Outcome()
    kept = _judge_kept(world, shadow, found, at_rest)
    _judge_directories(world, found, at_rest and tidy)
    release = _judge_current(world, shadow, found)
    if release is None:
        if at_rest and shadow.last() and kept is not None and kept.turns:
            found.found("lost", "no release is in use, though turns were said")
        return found
    path, manifest = release
    chunks = _all_chunks(path, found)
    _judge_chunks(chunks, shadow, found)
    _judge_function_of_archive(world, shadow, manifest, chunks, found)
    if vectors and manifest.indexes:
        _judge_vectors(world, path, manifest, chunks, found)
    if at_rest:
        _judge_forgotten(world, shadow, found)
        _judge_recalled(shadow, chunks, found)
        _judge_answers(world, path, shadow, found)
    return found


def _judge_kept(world: World, shadow: Shadow, found: Outcome, at_rest: bool) -> Kept | None:
    """Each turn's last acknowledged value is in Redis, else it is what the archive recalls. Redis is read first: turns move from there."""
    expected = {key: len(values) for key, values in list(shadow.said.items())}
    names = sorted(expected)
    in_redis = dict(zip(names, cast(list[bytes | None], world.redis.mget(names) if names else []), strict=True))
    try:
        kept = read_kept(world.night_dir / "archive")
    except HmemError as error:
        found.found("torn", f"archive: {error}")
        return None
    for key, count in expected.items():
        allowed = {*shadow.said[key][count - 1 :], *shadow.tried.get(key, [])}  # and what came while we were reading
        value = in_redis[key] if in_redis[key] is not None else kept.values.get(key)
        if value not in allowed:
            where = "an older value in Redis" if in_redis[key] is not None else "not in Redis and not in the archive"
            found.found("lost", f"{key.decode('utf-8', 'replace')}: {where}")
    for record in shadow.archived - kept.hashes:
        found.found("lost", f"a record is gone from the archive: {record}")
    shadow.archived |= kept.hashes
    if at_rest:
        for key in sorted(world.redis.scan_iter(match="hcli:memory:*", count=5000)):
            found.found("torn", f"{key!r} is still in Redis after a quiet night")
    return kept


def _judge_directories(world: World, found: Outcome, tidy: bool) -> None:
    """What bears the name of a release is one, whether it is in use or not; nothing half-made is left (`tidy`)."""
    for path in sorted((world.memory_dir / "releases").glob("*")):
        if path.name.isdigit() and not path.is_symlink():
            try:
                verify(path)
            except (HmemError, OSError) as error:
                if path.exists():  # else it was pruned while we looked
                    found.found("torn", f"releases/{path.name}: {error}")
    if tidy:
        left = [path for what in ("incoming/*", "verifying/*", ".*.tmp") for path in world.memory_dir.glob(what)]
        for path in [*left, *world.night_dir.rglob("*.tmp")]:
            found.found("torn", f"left over: {path.relative_to(world.root)}")


def _judge_current(world: World, shadow: Shadow, found: Outcome) -> tuple[Path, Manifest] | None:
    """`current` leads to a whole release, and once there was one there always is one."""
    try:
        path = current_release(world.memory_dir)
        if path is None:
            if shadow.released:
                found.found("torn", "current is gone")
            return None
        shadow.released = True
        return path, verify(path)
    except HmemError as error:
        found.found("torn", f"current: {error}")
        return None


def _all_chunks(path: Path, found: Outcome) -> list[Chunk]:
    try:
        return chunks_in(path / "lexical")
    except Exception as error:  # noqa: BLE001 - whatever a broken index raises
        found.found("torn", f"{path.name}/lexical: {error}")
        return []


def _judge_chunks(chunks: list[Chunk], shadow: Shadow, found: Outcome) -> None:
    """Nothing twice, nothing that was never said, nothing in a chat that did not say it, no two versions side by side."""
    texts, chats = shadow.texts_and_chats()
    for (turn_ids, number), count in Counter((c.turn_ids, c.passage) for c in chunks).items():
        if count > 1:
            found.found("doubled", f"passage {number} of {turn_ids} is there {count} times")
    for chunk in chunks:
        for turn_id in chunk.turn_ids:
            if chunk.text not in texts.get(turn_id, ()):
                found.found("doubled", f"{chunk.chunk_id} was never said")
            elif chunk.chat_id not in chats[turn_id]:
                found.found("doubled", f"{chunk.chunk_id} belongs to another chat than {chunk.chat_id}")


def _by_turn(chunks: Iterable[Chunk]) -> dict[str, list[tuple[str, str]]]:
    """Turn id → (chat, text) of its chunks, in order."""
    rows: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for chunk in sorted(chunks, key=lambda chunk: chunk.passage):
        for turn_id in chunk.turn_ids:
            rows[turn_id].append((chunk.chat_id, chunk.text))
    return rows


def _compare(kind: str, what: str, expected: Iterable[Turn], chunks: list[Chunk], found: Outcome) -> None:
    """Each expected turn has exactly its own chunks."""
    there = _by_turn(chunks)
    for turn in expected:
        wanted = [(chunk.chat_id, chunk.text) for chunk in chunks_of(turn)]
        seen = there.get(turn.turn_id, [])
        if seen != wanted:
            missing = [row for row in wanted if row not in seen]
            found.found(kind if missing else "doubled", f"{turn.turn_id} {what}: {seen!r:.200}")


def _judge_function_of_archive(
    world: World, shadow: Shadow, manifest: Manifest, chunks: list[Chunk], found: Outcome
) -> None:
    """The release holds what its segments say, the version of the highest run, neither more nor less; of what is being forgotten either."""
    try:
        kept = read_kept(world.night_dir / "archive", manifest.segments)
    except HmemError:
        return  # counted already, or this host's archive was taken away on purpose
    expected = [turn for turn in kept.turns.values() if turn.turn_id not in shadow.forgotten]
    _compare("lost", "is not in the release as its segments have it", expected, chunks, found)
    for turn_id in sorted(set(_by_turn(chunks)) - set(kept.turns) - set(shadow.forgotten)):
        found.found("doubled", f"{turn_id} is in the release and in none of its segments")


def _judge_forgotten(world: World, shadow: Shadow, found: Outcome) -> None:
    """At rest no file of night, memory and mirror holds the words of what was forgotten for good."""
    for place in (world.night_dir, world.memory_dir, world.root / "mirror"):
        for path in (path for path in place.rglob("*") if path.is_file() and not path.is_symlink()):
            content = path.read_bytes()
            for turn_id in (turn_id for turn_id, words in shadow.forgotten.items() if words in content):
                found.found("torn", f"{turn_id} was forgotten and is in {path.relative_to(world.root)}")


def _judge_recalled(shadow: Shadow, chunks: list[Chunk], found: Outcome) -> None:
    """At rest: the last version of every turn, in the chat of its first."""
    expected = []
    for key, values in shadow.said.items():
        turns = list(_turns((key, value) for value in values))
        same_chat = [turn for turn in turns if turn.chat_id == turns[0].chat_id]
        expected += same_chat[-1:]
    _compare("lost", "is not recalled as it was said last", expected, chunks, found)


def _judge_answers(world: World, path: Path, shadow: Shadow, found: Outcome) -> None:
    """Recall itself, by keyword: a turn is found by its own words in its own chat, and by nobody else."""
    turns = [turn for turn in _turns(shadow.last().items()) if chunks_of(turn)]
    chats = sorted({turn.chat_id for turn in turns})
    release = OpenRelease(world.settings(memory_backend="none"), path)
    try:
        for turn in turns[:: max(1, len(turns) // ASKED_TURNS)][:ASKED_TURNS]:
            for chat in chats:
                hits = release.recall(Query(chat, turn.content, 20)).hits
                if any(hit.chunk.chat_id != chat for hit in hits):
                    found.found("doubled", f"recall({chat}) answers with another chat's row")
                if len({hit.chunk.chunk_id for hit in hits}) != len(hits):
                    found.found("doubled", f"recall({chat}) answers a row twice")
                # the same words come out once
                named = {turn_id for hit in hits for turn_id in (*hit.chunk.turn_ids, *hit.also)}
                if chat == turn.chat_id and turn.turn_id not in named:
                    found.found("lost", f"{turn.turn_id} is not found by its own words")
    finally:
        release.close()


def _judge_vectors(world: World, path: Path, manifest: Manifest, chunks: list[Chunk], found: Outcome) -> None:
    """The vector index holds one vector for each chunk, in its chat, except those that the embedder refused."""
    refused = set(manifest.ledger.get("not_embedded", {}))
    wanted = {(chunk.chat_id, chunk.chunk_id) for chunk in chunks if chunk.chunk_id not in refused}
    there = Counter((chat, chunk_id) for chat, chunk_id, _ in vector_rows(world, path))
    for row in sorted(wanted - set(there)):
        found.found("lost", f"{row[1]} has no vector")
    for row, count in sorted(there.items()):
        if row not in wanted or count > 1:
            found.found("doubled", f"the vector index has {row[1]} {count} times")


def vector_rows(world: World, path: Path) -> list[tuple[str, str, list[float]]]:
    """(chat, chunk id, vector) of all rows of a release's Chroma index, read in a private copy."""
    from shared.vectors.chroma import index as chroma

    view = PrivateDir(world.root / "views")
    private_copy(path / place_of("chroma"), view.path)
    client = chroma._client(view.path)
    try:
        found = []
        named = {collection.name for collection in client.list_collections()}
        for chat in (chat for chat in counted(path, "chunks") if chroma.collection_name(chat) in named):
            collection = client.get_collection(chroma.collection_name(chat), embedding_function=None)
            rows = collection.get(include=["embeddings"])
            found += [(chat, i, vector.tolist()) for i, vector in zip(rows["ids"], rows["embeddings"], strict=True)]
        return found
    finally:
        client.close()
        view.remove()
