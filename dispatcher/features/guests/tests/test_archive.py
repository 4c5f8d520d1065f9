"""Who is a guest is archived by night, and comes back with `hmem restore`."""

from __future__ import annotations

from dispatcher.features.guests.records import Guest
from nightly.archive.incoming import last_events
from shared.turns.records import loads_object
from shared.wire import keys
from tests.support.world import SECRET, World

RECORD = Guest("77", "Lena", 1.0, "1").signed(SECRET)


def test_a_guest_comes_back_with_what_the_chat_may_have(light: World) -> None:
    light.redis.hset("hcli:mem:guests", mapping={"77": RECORD, "78": "no record"})
    light.redis.hset(keys.chat_settings("77"), "access", "limited")
    light.night()
    states = {event.id: event.state for event in last_events(light.night_dir / "archive")}
    assert states == {"77": {"guest": loads_object(RECORD), "access": "limited"}}
    light.redis.flushall()
    light.command("hmem", "restore", str(light.night_dir / "archive"))
    assert light.redis.hget("hcli:mem:guests", "77") == RECORD
    assert light.redis.hget(keys.chat_settings("77"), "access") == b"limited"
