"""Texts that attack a page, in every field that a user, a stranger or another program fills. Each has a mark by which it is found again."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import closing, nullcontext
from typing import Any

from dispatcher.memory.day.memory import DayMemory
from shared.release.manifest import RELEASES
from shared.turns.records import Task, Turn, dumps
from shared.wire import keys
from tests.chaos.harness.forked import night
from tests.support.world import World

#: What each would do if it were not data: call this binding of the test, or leave an element with this attribute.
BINDING, ATTRIBUTE = "hmemHostile", "data-hostile"
PAYLOADS = {
    "script": "<script>hmemHostile(1)</script>",
    "image": "<img src=x onerror=hmemHostile(1) data-hostile>",
    "svg": '"><svg onload=hmemHostile(1) data-hostile>',
    "double": '" onmouseover="hmemHostile(1)" onfocus="hmemHostile(1)" autofocus data-hostile="',
    "single": "' onmouseover='hmemHostile(1)' onfocus='hmemHostile(1)' autofocus data-hostile='",
    "template": "{{7*7}} {% for a in b %} ${7*7} #{7*7} <%= 7*7 %>",
    "link": '<a href="javascript:hmemHostile(1)" data-hostile>now</a> [now](javascript:hmemHostile(1))',
    "closing": '</textarea></title></pre></style><iframe data-hostile srcdoc="<script>parent.hmemHostile(1)</script>"></iframe>',
    "htmx": '<div data-hostile hx-get="/leave" hx-trigger="load" hx-on:load="hmemHostile(1)">x</div>',
    "style": "<style>*{display:none}</style><link data-hostile rel=stylesheet href=//evil.example/x.css>",
    "refresh": '<meta data-hostile http-equiv=refresh content="0;url=//evil.example/"><base data-hostile href=//evil.example/>',
    "form": '<form data-hostile action=//evil.example/><button autofocus>Enter</button></form><object data-hostile data=x>',
    "comment": "<!-- --!> ]]> &lt;script&gt; &#60;script&#62; %3Cscript%3E \\u003cscript\\u003e",
    "json": '</script>"],"x":"\u2028\u2029',
    "direction": "\u202egnp.exe\u2066 \u200f\u061c",
    "long": "W" * 10_000,
    "nul": "before\x00after \x1b[31m \x07 \ufeff \ud83d",
}  # fmt: skip
#: Fields of the stored world; those of an address are added by the test.
FIELDS = ("message", "answer", "speaker", "fact", "goal", "preference", "explained", "noted", "why")


def mark(field: str, payload: str) -> str:
    return f"zq{field}zz{payload}qz"


def text(field: str, payload: str) -> str:
    return f"{mark(field, payload)} {PAYLOADS[payload]}"


def chat_of(payload: str) -> str:
    """The chat in which this payload is; its id has it, too, as far as a chat id may."""
    printable = "".join(letter for letter in PAYLOADS[payload] if letter.isprintable())
    return f"{mark('chat', payload)} {printable}"[:256].strip()


def plant(world: World) -> None:
    """Every payload in every field, a night that archives and summarises them, and then what other programs may have left."""
    now = time.time()
    for number, payload in enumerate(PAYLOADS):
        for role, task in itertools.product(("user", "asst"), (f"h{number}", f"w{number}")):
            turn = _turn(task, role, payload, now - 90_000 + number)
            world.redis.set(f"hcli:memory:{task}:{role}", turn.to_json())
    for key, value in ((PAYLOADS["image"], {}), ("odd", {"role": PAYLOADS["image"], "chat_id": 1})):
        world.redis.set(f"hcli:memory:{key}:user", json.dumps(value))  # not a turn: quarantined
    code, told = night(world)
    assert code == 0, told
    with closing(DayMemory(world.settings(), nullcontext)) as day:
        for number, payload in enumerate(PAYLOADS):
            _remember(day, payload, now)
            turns = [_turn(f"t{number}", role, payload, now - 60 + number) for role in ("user", "asst")]
            day.upkeep.store_turns(turns)
            world.redis.rpush(keys.why(chat_of(payload)), _explanation(payload, f"t{number}", now))
    _left_by_others(world)


def _turn(task: str, role: str, payload: str, at: float) -> Turn:
    name = text("speaker", payload) if role == "user" else None
    return Turn(task, role, chat_of(payload), text("message" if role == "user" else "answer", payload), at, name, "s")


def _remember(day: DayMemory, payload: str, now: float) -> None:
    for kind in ("fact", "goal", "preference"):
        task = Task(f"k-{kind}-{payload}", chat_of(payload), "")
        day.acting.add(task, text(kind, payload)[:2000].replace("\x00", ""), now, kind=kind)


def _explanation(payload: str, task: str, now: float) -> bytes:
    """As the dispatcher writes it, with the payload in each of its texts."""
    hit = {name: text("explained", payload)[:400] for name in ("date", "speaker", "text", "because")}
    record: dict[str, Any] = {
        "task_id": task, "at": now, "tokens": 7, "release": 3,
        "parts": [{"name": text("explained", payload)[:400], "tokens": 1}],
        "hits": [hit | {"score": 0.5, "words": 0.1, "meaning": None}],
        "missed": [hit | {"score": 0.1, "words": 0.1, "meaning": 0.2}],
        "facts": [text("noted", payload)[:400]], "why": text("why", payload)[:400], "nothing_why": None,
        "degraded": [text("why", payload)[:400]],
    }  # fmt: skip
    return dumps(record)


def _left_by_others(world: World) -> None:
    """A worker and releases that no program of ours wrote."""
    first = PAYLOADS["image"]
    for payload, said in PAYLOADS.items():
        worker = f"{mark('worker', payload)} {said}"[:400].encode("utf-8", "replace").decode()
        world.redis.sadd(keys.WORKERS, worker)
        world.redis.set(keys.lease(worker), "0")
    release = world.memory_dir / RELEASES / "99999"
    release.mkdir(parents=True)
    manifest = {"format_version": first, "run": first, "created_at": first, "files": {first: first}, "checksum": first}
    (release / "manifest.json").write_text(json.dumps(manifest))
    (world.memory_dir / RELEASES / "<img src=x data-hostile>").mkdir()
