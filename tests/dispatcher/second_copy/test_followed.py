"""What a look at Redis brings into the journal after a failed write, when a key lives longer, and for a message that was answered twice."""

from __future__ import annotations

import time

from redis import Redis

from dispatcher.second_copy.look import conversation_entries
from shared.delivery.journal.entries import JournalEntry
from shared.delivery.journal.state import JournalState
from shared.turns.records import Task, Turn
from tests.dispatcher.second_copy.conftest import LossyHost
from tests.support.machine import wait_for


def test_a_failed_write_is_reported_until_a_look_has_made_up_for_it(host: LossyHost) -> None:
    host.world.start_dispatcher()
    host.world.enqueue("t0", "before")
    host.answered("t0")
    (host.disk / "journal.json").rename(host.disk / "away")
    host.world.enqueue("t1", "while it cannot be written")
    wait_for(lambda: host.redis.exists("hcli:mem:done:t1"), "the answer")
    wait_for(lambda: host.reported()["entries"] and host.reported()["error"], "the report")
    (host.disk / "away").rename(host.disk / "journal.json")
    wait_for(lambda: host.reported()["entries"] == 0, "nothing to be missing")
    assert host.reported()["error"] is None
    assert {name.decode() for name in host.turns()} == host.journal.turns.keys()


def followed(state: JournalState, client: Redis) -> list[JournalEntry]:
    """What one look at a conversation adds, applied."""
    found = []
    for one in conversation_entries(client, {"9912"}, state):
        found.append(JournalEntry(state.last + 1, one.at, one.kind, one.chat, one.data))
        state.apply(found[-1])
    return found


def test_a_conversation_that_goes_on_expires_later_in_the_journal_too(host: LossyHost) -> None:
    state = JournalState(light=True)
    host.redis.set("hcli:session:9912", "a session", ex=100)
    host.redis.rpush("hcli:session_history:9912", "one", "two")
    host.redis.expire("hcli:session_history:9912", 100)
    assert len(followed(state, host.redis)) == 2
    assert not followed(state, host.redis), "the same time, measured again"
    for name in ("hcli:session:9912", "hcli:session_history:9912"):
        host.redis.expire(name, 14_400)
    assert len(followed(state, host.redis)) == 2
    for known in state.keys.values():
        assert known.until is not None
        assert known.until > time.time() + 7_000
    assert state.keys["hcli:session_history:9912"].value == ["one", "two"]
    host.redis.persist("hcli:session:9912")
    followed(state, host.redis)
    assert state.keys["hcli:session:9912"].until is None


def test_a_second_answer_that_redis_never_had_does_not_get_into_the_journal(host: LossyHost) -> None:
    (host.world.root / "hold").touch()
    dispatcher = host.world.start_dispatcher()
    raw = host.world.enqueue("t0", "hello")
    wait_for(lambda: host.redis.hlen("hcli:mem:busy"), "the claim")
    task = Task.parse(raw)
    for role, said in (("user", "hello"), ("asst", "the answer of the dispatcher that took it over")):
        turn = Turn("t0", role, task.chat_id, said, 1_707_500_000.0)
        host.redis.set(f"hcli:memory:t0:{role}", turn.to_json())
    host.redis.set("hcli:mem:done:t0", task.digest)
    (host.world.root / "hold").unlink()
    wait_for(lambda: b"repeated" in dispatcher.log.read_bytes(), "the second answer")
    wait_for(lambda: len(host.journal.turns) == 2, "the look that finds the first one")
    host.followed()
    content = b"".join(path.read_bytes() for path in host.disk.glob("day-*"))
    assert content.count(b'"hcli:memory:t0:asst"') == 1
    assert {key.encode(): one.value for key, one in host.journal.turns.items()} == host.turns()
