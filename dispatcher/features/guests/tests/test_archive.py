"""Who is a guest is archived by night, and comes back with `hmem restore`."""

from __future__ import annotations

from nightly.archive.incoming.events import last_events
from shared.wire import keys
from tests.support.world import World

RECORD = b'{"name":"Lena","since":1.0,"by":"1"}'


def test_a_guest_comes_back_with_what_the_chat_may_have(light: World) -> None:
    light.redis.hset("hcli:mem:guests", mapping={"77": RECORD, "78": "no record"})
    light.redis.hset(keys.chat_settings("77"), "access", "limited")
    light.night()
    states = {event.id: event.state for event in last_events(light.night_dir / "archive")}
    assert states == {"77": {"guest": {"name": "Lena", "since": 1.0, "by": "1"}, "access": "limited"}}
    light.redis.flushall()
    light.command("hmem", "restore", str(light.night_dir / "archive"))
    assert light.redis.hget("hcli:mem:guests", "77") == RECORD
    assert light.redis.hget(keys.chat_settings("77"), "access") == b"limited"
