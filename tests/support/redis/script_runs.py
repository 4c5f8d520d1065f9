"""The paths of each Lua script: what it finds, its arguments, and the users that run it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from importlib import import_module

from shared.hooks import feature_names
from tests.support.redis.scripts import ScriptRun

CHAT, TASK, HOUR = "9912", "t1", 3600
MESSAGE = json.dumps({"task_id": TASK, "chat_id": CHAT, "message": "hello"})
LARGE = "x" * 3000
BUSY = f"HSET hcli:mem:busy {CHAT} w:1"
IN_FLIGHT = f"HSET hcli:mem:inflight:w w:1 '{MESSAGE}'"
#: The night has its lease.
OWNED = "SET hcli:mem:night:owner '7 here'"
AWAITED = f"HSET hcli:mem:bot:waiting:main {TASK} record"
QUEUED = f"RPUSH hcli:tasks '{MESSAGE}'"
#: What finish.lua gets.
FINISHED = {
    "user": "question", "asst": "answer", "history": ["entry"], "size": 9, "digest": "d",
    "session_was": "", "session": "s1", "session_ttl": HOUR, "turn_ids": ["t1:user"], "dead": "", "history_ttl": HOUR, "history_length": 100,
    "counters": [{"key": "hcli:stats:2026-11-28", "ttl": HOUR, "increments": [["tasks", 1], ["cost_usd", 0.5]]}],
    "done_ttl": HOUR, "unconsolidated_length": 9, "dead_length": 9, "result": "signed", "result_ttl": HOUR,
    "chat": CHAT, "tokens": 5, "spent_ttl": HOUR, "tags": "", "partial": "hcli:mem:partial:t1", "why": "", "why_kept": [2, HOUR, 50],
    "forget": False, "session_cost": "0.5", "existing_turns": ["", ""], "corrected": "corrected",
}  # fmt: skip


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def of_dispatcher(script: str, *given: object, before: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> ScriptRun:
    return ScriptRun(f"dispatcher/{script}", "dispatcher", given, before, names)


def of_bot(script: str, *given: object, before: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> ScriptRun:
    return ScriptRun(f"dispatcher/bots/telegram/{script}", "bot", given, before, names)


def finish(*before: str, stays: str = "", **more: object) -> ScriptRun:
    given = ("w:1", CHAT, FINISHED | more, sha1("old"), stays, 99)
    return of_dispatcher("queue/finish", *given, before=(BUSY, IN_FLIGHT, *before))


def begin(*before: str) -> ScriptRun:
    given = ("s1", HOUR, 3, "1", 10_000, "", "")
    return of_dispatcher("queue/begin", *given, before=before)


def claim(*before: str) -> ScriptRun:
    given = ("w:1", "w", 0, "hcli:mem:attempts:", 3, 9, HOUR, 999, 50, " why ", "cli-", 9000)
    return of_dispatcher("queue/claim", *given, before=before)


def postpone(*before: str, resets: int | None = None) -> ScriptRun:
    times = {"now": 50, "asked": 40, "first": 60, "pause": 600, "most": 9000, "most_own": 900, "same": 900}
    how = {"task": TASK, "all": True, "why": "why", "resets": resets, "session": "s1", **times}
    return of_dispatcher("queue/postpone", "w:1", CHAT, how, before=(BUSY, *before))


def bury(*before: str, result: str = "apology") -> ScriptRun:
    given = ("w:1", CHAT, "letter", 5, result, HOUR, "hcli:mem:partial:t1", "", "", 99)
    return of_dispatcher("queue/bury", *given, before=(BUSY, *before))


def intake(*before: str, task: str = MESSAGE, queue: int = 9, arrived: str = "") -> ScriptRun:
    return of_bot("intake", TASK, "record", task, queue, 9, HOUR, "mark", "full", "sorry", arrived, before=before)


def flush(*before: str) -> ScriptRun:
    names = ("hcli:mem:night:owner", *(f"hcli:memory:t{number}:user" for number in (1, 2, 3)))
    return ScriptRun("nightly/steps/flush", "night", ("7 here", *("string", "said") * 3), (OWNED, *before), names)


def drop(*before: str, outcome: str = "archived") -> ScriptRun:
    given = ("7 here", "t1:ab12", sha1("bytes"), outcome)
    return ScriptRun("nightly/archive/media/drop", "night", given, (OWNED, *before))


def rotate(*before: str) -> ScriptRun:
    return of_dispatcher("queue/rotate", CHAT, "s1", "entry", before=before)


def retry(*before: str, digest: str = "d") -> ScriptRun:
    return ScriptRun("dispatcher/queue/retry", "owner", ("letter", MESSAGE, digest, TASK, "record"), before)


def withdraw(*before: str, token: str = "") -> ScriptRun:
    given = (MESSAGE, token, CHAT, "forgotten", HOUR, "d", HOUR, "", "", 99)
    return ScriptRun("dispatcher/chat_data/forget/layers/withdraw", "owner", given, before)


def keep(*before: str, content: str = "bytes") -> ScriptRun:
    return ScriptRun("shared/wire/keep", "dispatcher", ("t1:ab12", content, "5:1000:9912", 99), before)


def put(*before: str, most: int = 99) -> ScriptRun:
    return ScriptRun("shared/wire/put", "bot dispatcher", ("5:ab12", "bytes", 1000, HOUR, most), before)


RUNS = [
    # the queue: claim, begin, finish, bury, recover
    of_dispatcher("queue/beat", "w", "m", HOUR, 7, HOUR),
    of_dispatcher("queue/beat", "w", "m", HOUR, 7, HOUR, "media", "broken", before=("SET hcli:mem:forgotten m",)),
    claim(),
    claim(QUEUED, "SET hcli:mem:attempts:t1 1", "ZADD hcli:mem:served 3 9912 4 77"),
    claim(QUEUED, "SET hcli:mem:attempts:t1 5", "SET hcli:mem:lease:w x EX 99"),
    claim(IN_FLIGHT),
    claim(f"RPUSH hcli:tasks {LARGE}", QUEUED),
    claim("RPUSH hcli:tasks HUGE", QUEUED),
    claim(QUEUED, "HSET hcli:mem:holds 9912 '{\"next\": 99, \"task\": \"t0\", \"bot\": \"hcli:mem:bot:waiting:main\"}'"),
    postpone(),
    postpone(IN_FLIGHT, AWAITED, "SET hcli:session:9912 s1", "HSET hcli:mem:holds '' '{\"since\": 9, \"next\": 40}'"),
    postpone(IN_FLIGHT, "SET hcli:mem:cancel:t1 1"),
    postpone(IN_FLIGHT, AWAITED, resets=9999),
    begin(),
    begin("SET hcli:mem:done:t1 d", "SET hcli:mem:attempts:t1 1", "SET hcli:mem:forgotten m"),
    begin("SET hcli:memory:t1:user q"),
    begin("SET hcli:mem:bot:new:9912 1", "RPUSH hcli:session_history:9912 entry", "SET hcli:session_size:9912 5"),
    begin("SET hcli:session:9912 s1", "HSET hcli:mem:spent:9912 session s1 cost 1", "RPUSH hcli:session_history:9912 entry"),
    finish(),
    finish("SET hcli:mem:done:t1 d"),
    finish("SET hcli:memory:t1:user another"),
    finish("SET hcli:results:t1 old", stays="1"),
    finish("SET hcli:mem:partial:t1 x", "HSET hcli:mem:spent:9912 session s0", "SET hcli:session:9912 s0",
           session_was="s0", tags="tag", dead="letter"),
    finish("SET hcli:session:9912 s1", session_was="s1", session="", why="why", forget=True),
    finish("RPUSH hcli:mem:why:9912 '{\"at\": 1}'", why=json.dumps({"at": 99})),
    finish("SET hcli:mem:why:9912 damaged", why=json.dumps({"at": 1})),
    bury(),
    bury(IN_FLIGHT, "SET hcli:mem:partial:t1 x"),
    bury(IN_FLIGHT, "SET hcli:results:t1 old"),
    bury(IN_FLIGHT, "SET hcli:mem:dead damaged", result=""),
    *(
        ScriptRun("dispatcher/queue/recover", "dispatcher", ("w", "1", "hcli:mem:attempts:", HOUR, certain), (BUSY, IN_FLIGHT, *before))
        for certain in ("", "1")
        for before in (("SET hcli:mem:lease:w x EX 99",), ("SADD hcli:mem:workers w", "HSET hcli:mem:release w 7", "ZADD hcli:mem:served 1 9912"))
    ),
    ScriptRun("dispatcher/queue/guard_wait_target", "dispatcher"),
    ScriptRun("dispatcher/queue/guard_wait_target", "dispatcher", before=("RPUSH hcli:mem:unmoved task",)),
    ScriptRun("dispatcher/queue/peek_head", "dispatcher owner", (999,), (QUEUED,)),
    ScriptRun("dispatcher/queue/queued", "bot dispatcher owner", (0, -1, 999), (QUEUED, f"RPUSH hcli:tasks {LARGE}")),
    ScriptRun("dispatcher/queue/queued", "dispatcher", (0, 500, 999, "t1"), (QUEUED,)),
    ScriptRun("dispatcher/queue/remind", "dispatcher", ("message", HOUR)),
    ScriptRun("dispatcher/queue/remind", "dispatcher", ("message", HOUR), ("SET hcli:mem:reminded:r1 1",)),
    ScriptRun("dispatcher/queue/end_forgotten_conversation", "dispatcher", ("entry",),
              ("RPUSH hcli:session_history:9912 entry", "SET hcli:session:9912 s")),
    retry("RPUSH hcli:mem:dead letter", "SET hcli:mem:done:t1 d", "SET hcli:results:t1 apology", "SET hcli:mem:cancel:t1 1"),
    retry("RPUSH hcli:mem:dead letter", digest=""),
    retry("SET hcli:mem:done:t1 other"),
    # sessions
    ScriptRun("dispatcher/queue/consolidated", "dispatcher", (CHAT, 9, "t1:user"),
              ("RPUSH hcli:mem:unconsolidated:9912 t1:user", "SADD hcli:mem:chats 9912")),
    rotate(BUSY),
    rotate("SET hcli:session:9912 s1", "RPUSH hcli:session_history:9912 entry other", "SET hcli:session_size:9912 5"),
    rotate("SET hcli:session:9912 s2", "HSET hcli:mem:spent:9912 session s1"),
    # the bot
    of_bot("arrive", TASK, "", "arriving", HOUR),
    of_bot("bot_lease", "bot-1", HOUR),
    of_bot("bot_lease", "bot-1", 0, before=("SET hcli:mem:bot:owner:main bot-1",)),
    of_bot("cancel", MESSAGE, "signed", HOUR, before=(QUEUED,)),
    of_bot("delivered", TASK, "signed", before=("SET hcli:results:t1 signed",
           "HSET hcli:mem:bot:waiting:main t1 record", "RPUSH hcli:pending:9912 t1")),
    of_bot("edit", MESSAGE, "new", "mark", HOUR, before=(QUEUED,)),
    of_bot("edit", MESSAGE, "new", "mark", HOUR),
    intake("RPUSH hcli:pending:9912 t0"),
    intake(queue=0),
    intake("HSET hcli:mem:bot:arriving:main t1 before", task="", arrived="before"),
    of_bot("new", HOUR, before=("SET hcli:session:9912 s1",)),
    of_bot("outbox", "head", "field", "record", before=("RPUSH hcli:mem:outbox:main head next",)),
    of_bot("say_once", "field", "record", HOUR),
    of_bot("say_once", "field", "record", HOUR, names=("hcli:mem:bot:waiting:main", "hcli:mem:bot:seen:album-1")),
    of_bot("update_waiting", TASK, "record", before=("HSET hcli:mem:bot:waiting:main t1 before",)),
    # files of messages
    put("ZADD hcli:mem:media 5000 9:cd34 10 9:old"),
    put("ZADD hcli:mem:media 5000 9:cd34", most=10),
    keep("HSET hcli:mem:kept t2:cd34 5:1:77"),
    keep("SET hcli:mem:kept:t1:ab12 bytes", "HSET hcli:mem:kept t1:ab12 5:1:9912", content=""),
    # the night, and forgetting
    flush("SET hcli:memory:t1:user said", "SET hcli:memory:t2:user changed"),
    ScriptRun("nightly/steps/flush", "night", ("7 here", "list", "archived"),
              (OWNED, "RPUSH hcli:memory:odd:user x"),
              ("hcli:mem:night:owner", "hcli:memory:odd:user")),
    drop("SET hcli:mem:kept:t1:ab12 bytes", "HSET hcli:mem:kept t1:ab12 5:1:9912"),
    drop("SET hcli:mem:kept:t1:ab12 bytes", "SET hcli:memory:t1:user said", outcome="orphaned"),
    *(
        ScriptRun("dispatcher/chat_data/forget/layers/erase", "owner", ("said",), (f"SET {name} said",), (name,))
        for name in ("hcli:memory:t1:user", "hcli:results:t1", "hcli:mem:bot:seen:9912-1")
    ),
    withdraw(QUEUED, "SET hcli:results:t1 old"),
    withdraw(QUEUED),
    withdraw(BUSY, IN_FLIGHT, token="w:1"),
]  # fmt: skip
#: A feature's are in its tests.
for _name in feature_names():
    with suppress(ModuleNotFoundError):
        RUNS += import_module(f"dispatcher.features.{_name}.tests.script_runs").RUNS
