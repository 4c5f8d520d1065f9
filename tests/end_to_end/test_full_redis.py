"""A Redis that has reached its maxmemory, with the options that we ship: a night makes room again."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest
from redis.exceptions import OutOfMemoryError

from tests.support.machine import wait_for
from tests.support.redis.users import guarded_redis, refusals
from tests.support.world import World


def test_a_full_redis_is_emptied_by_a_night(tmp_path: Path) -> None:
    with guarded_redis(tmp_path / "redis", "--maxmemory", "4mb") as guarded, guarded.client("tester") as admin:
        world = World(tmp_path, admin, guarded.urls["dispatcher"], {"EMBEDDER": "none", "NIGHT_INDEXES": "none"})
        running = world.start_dispatcher()
        try:
            with pytest.raises(OutOfMemoryError):
                for number in count():
                    world.say(f"t{number}", f"the {number}th message, with {'7f' * 5000}")
            told = world.command("hmem-night", "run", "--json", REDIS_URL=guarded.urls["night"]).stdout
            assert json.loads(told)[0]["deleted"] == number
            assert b"1" in admin.hgetall("hcli:mem:release").values(), "the dispatcher lives, and serves the release"
            assert admin.get("hcli:mem:night:last")
            wait_for(lambda: not list(admin.scan_iter(match="hcli:memory:*")), "room")
            world.say("afterwards", "There is room.")
        finally:
            ended = running.stop()
        assert ended == 0
        assert refusals(admin) == []
