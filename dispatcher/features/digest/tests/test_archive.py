"""Which chats want a digest is archived by night, and comes back with `hmem restore`."""

from __future__ import annotations

from datetime import UTC, datetime

from nightly.archive.incoming import last_events
from tests.support.world import World


def test_a_digest_comes_back_and_that_it_was_sent_is_no_news(light: World) -> None:
    light.redis.hset("hcli:mem:digests", "9912", "2026-11-27")
    light.night()
    segments = len(list((light.night_dir / "archive").iterdir()))
    light.redis.hset("hcli:mem:digests", "9912", "2026-11-28")
    light.night()
    assert len(list((light.night_dir / "archive").iterdir())) == segments
    assert [event.state for event in last_events(light.night_dir / "archive")] == [{"digest": True}]
    light.redis.flushall()
    light.command("hmem", "restore", str(light.night_dir / "archive"))
    assert light.redis.hget("hcli:mem:digests", "9912") == str(datetime.now(UTC).date()).encode(), "it begins tomorrow"
