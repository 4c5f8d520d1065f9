"""Events on their way from Redis into the archive, and out of it: archived, flushed, compared, erased, captured."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nightly.archive.capture import capture
from nightly.archive.catalog import CATALOG, recomputed
from nightly.archive.incoming import last_events
from nightly.archive.segments import Segment
from nightly.night.progress import Reporter
from shared.system.archive_folder import CAPTURE
from shared.turns.events import Event, EventChange, EventKind, turn_id_of
from shared.turns.records import Tombstone
from shared.wire import keys
from tests.support.world import World

CHAT = "9912"


def happens(world: World, name: str, text: str | None, at: float = 100.0, **more: str) -> Event:
    state = None if text is None else {"text": text, "created": at, **more}
    event = Event(EventKind.MEMORY, name, CHAT, EventChange.MADE, at, state, 1)
    world.redis.set(event.key, event.to_json())
    return event


def archived(world: World) -> dict[str, str | None]:
    """Id → text of each subject, as it is now."""
    events = last_events(world.night_dir / "archive")
    return {one.id: (one.state or {}).get("text") for one in events if one.kind == EventKind.MEMORY}


def test_events_are_archived_and_flushed_and_the_last_one_counts(light: World) -> None:
    happens(light, "a1", "the flight is on the 13th")
    light.night()
    assert light.redis.keys("hcli:mem:event:*") == []
    happens(light, "a1", "the flight is on the 14th")
    happens(light, "b2", "Lena is allergic to nuts")
    light.night()
    happens(light, "b2", None)
    light.night()
    assert archived(light) == {"a1": "the flight is on the 14th", "b2": None}
    compare(light)


def test_an_event_of_a_kind_that_only_another_program_knows_is_archived_like_others(light: World) -> None:
    """And one that no program can have written stops no night."""
    event = Event("tide", "a1", CHAT, EventChange.MADE, 100.0, {"text": "high water"}, 1)
    light.redis.set(event.key, event.to_json())
    for kind, name in ((r"\ud800", "a2"), ("chat", r"\ud800")):
        broken = f'{{"kind":"{kind}","what":"made","id":"{name}","chat_id":"1","at":1,"state":{{}},"number":0}}'
        light.redis.set(f"hcli:mem:event:{kind}:{name}", broken)
    light.night()
    assert light.redis.keys("hcli:mem:event:*") == []
    (kept,) = last_events(light.night_dir / "archive")
    assert kept == event


def test_an_event_that_changed_since_it_was_exported_stays_in_redis(light: World) -> None:
    happens(light, "a1", "one")
    with light.redis.pipeline() as later:
        light.night(restart_command=f"redis-cli -u {light.url} set {keys.event('memory', 'b2')} x")
        later.execute()
    assert light.redis.keys("hcli:mem:event:*") == [keys.event("memory", "b2").encode()]
    (summary,) = light.night()
    assert summary["deleted"] == 1
    kinds = [line["kind"] for path in sorted((light.night_dir / "archive").glob("seg-*")) for line in Segment(path)]
    assert kinds == ["event", "quarantine"]


def test_what_a_chat_has_set_is_archived_when_it_changes(light: World) -> None:
    light.redis.hset(keys.chat_settings(CHAT), mapping={"timezone": "Europe/Lisbon", "language": "de"})
    light.night()
    segments = len(list((light.night_dir / "archive").iterdir()))
    light.night()
    assert len(list((light.night_dir / "archive").iterdir())) == segments
    light.redis.hset(keys.chat_settings(CHAT), "language", "")  # English again
    light.night()
    assert len(list((light.night_dir / "archive").iterdir())) == segments + 1
    states = {event.id: event.state for event in last_events(light.night_dir / "archive")}
    assert states[CHAT] == {"timezone": "Europe/Lisbon", "language": ""}


def test_erasing_takes_out_events_of_the_turn_by_their_own_name_and_of_the_chat(light: World) -> None:
    light.say("t1", "my pin is 4711")
    happens(light, "a1", "the pin is 4711", source_turn="t1:user")
    happens(light, "b2", "the wifi is called heron")
    happens(light, "c3", "Lena likes figs")
    light.night()
    light.push_tombstone(erasing("x1", frozenset({"t1:user"})))
    light.night()
    assert archived(light) == {"b2": "the wifi is called heron", "c3": "Lena likes figs"}
    light.push_tombstone(erasing("x2", frozenset({turn_id_of("b2")})))
    light.night()
    assert archived(light) == {"c3": "Lena likes figs"}
    compare(light)
    light.push_tombstone(erasing("x3", None))
    light.night()
    assert archived(light) == {}
    everything = b"".join(path.read_bytes() for path in light.night_dir.rglob("*") if path.is_file())
    assert not [word for word in (b"pin is 4711", b"heron", b"figs") if word in everything]
    compare(light)


def test_a_redis_that_is_lost_after_a_capture_costs_nothing(light: World, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    light.environment |= {"ARCHIVE_MIRROR": str(mirror)}
    light.say("t0", "said yesterday")
    light.night()
    light.say("t1", "the boiler code is 4711")
    happens(light, "a1", "the boiler code is 4711")
    light.push_tombstone(Tombstone("h1", CHAT, 1.0, turn_ids=frozenset({"t9:user"})))
    light.redis.hset(keys.chat_settings(CHAT), "language", "de")
    capture(light.settings(), Reporter(quiet=True))
    done = light.command("hmem-night", "capture")
    assert done.stdout == "Captured: 3 new records and 1 tombstone since the last night. Its mirror has it, too.\n"
    assert light.redis.keys("hcli:memory:*")
    assert len(list((light.night_dir / "archive").iterdir())) == 2
    light.redis.flushall()
    light.say("t2", "the wifi is called heron")
    capture(light.settings(), Reporter(quiet=True))
    light.night()
    with recomputed(light.settings(), Reporter(quiet=True)) as catalog:
        assert catalog.turns_of(CHAT) == 3
        assert [*catalog.tombstones] == ["h1"]
    assert archived(light) == {"a1": "the boiler code is 4711"}
    assert {event.kind for event in last_events(light.night_dir / "archive")} == {EventKind.MEMORY, EventKind.CHAT}
    for folder in (light.night_dir / "archive", mirror):
        assert [*Segment(folder / CAPTURE)] == []
        assert b"code is 4711" not in (folder / CAPTURE).read_bytes()


def erasing(name: str, turn_ids: frozenset[str] | None) -> Tombstone:
    return Tombstone(name, CHAT, 1e9, turn_ids=turn_ids, erase=True)


def compare(world: World) -> None:
    """The catalog that nights have added to is the one that is made from the segments."""
    with (
        recomputed(world.settings(), Reporter(quiet=True)) as made,
        closing(sqlite3.connect(world.night_dir / CATALOG)) as kept,
    ):
        assert [*kept.iterdump()] == [*made.connection.iterdump()]
