"""Which commands our programs send to Redis while the tests run: each kind once, with the user who sends it where Redis has our users."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis.asyncio.connection
import redis.connection
from redis import Redis, ResponseError

from shared.wire.key_table import all_keys

if TYPE_CHECKING:
    from tests.support.redis.users import Guarded

#: A key of ours, and what stands for all keys of its kind.
_KINDS = [
    (re.compile(re.sub(r"\\\{.*", "", re.escape(key.pattern)) + (".+" if "{" in key.pattern else "")), key.pattern)
    for key in all_keys()
]
#: What a connection sends for itself. Users of ours may not all do it, and do not need it.
#: TYPE only names the key after an error about a value of another type; where it is refused, the error says it without the name.
_OF_CONNECTIONS = {"TYPE", "HELLO", "AUTH", "CLIENT", "SELECT", "QUIT", "READONLY"}


def user_of(arguments: Sequence[str]) -> str | None:
    """Of a command line; None for one that asks what it may do, or that is not one of these users."""
    name, first = Path(arguments[0]).name, arguments[1] if len(arguments) > 1 else ""
    if name == "hmem-night":
        return "owner" if "--hand-over" in arguments else "night"  # that one runs as whoever starts it
    if name != "hmem" or first in ("doctor", "init", "mcp", "restore"):
        return None
    return {"run": "dispatcher", "telegram": "bot"}.get(first, "owner")


def record(path: str, arguments: Sequence[str]) -> None:
    """From now on, for this process: append each kind of command to the file."""
    user, seen = user_of(arguments), set[str]()
    if user is None:
        return
    stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(words: Sequence[Any]) -> None:
        name = str(words[0]).upper()
        # Asked by the check of persistence, which says so where it is refused.
        if (user, name) == ("dispatcher", "CONFIG"):
            return
        kind = f"{name} {sorted({kind_of(word) for word in words[1:]})} {words[1] if name in ('ACL', 'CONFIG', 'SCRIPT') else ''}"
        if kind not in seen and name not in _OF_CONNECTIONS:
            seen.add(kind)
            sent = [name, *(_text(word)[:200] for word in words[1:])]
            if name in ("EVAL", "EVALSHA"):  # one key of each kind: there may be thousands
                keys = {kind_of(word): word for word in sent[3 : 3 + int(sent[2])]}
                sent = [name, "x", str(len(keys)), *keys.values()]
            os.write(stream, json.dumps([user, kind, sent]).encode() + b"\n")

    for owner, method in (
        (redis.connection.PythonRespSerializer, "pack"),
        (redis.asyncio.connection.AbstractConnection, "pack_command"),
    ):
        setattr(owner, method, _noting(getattr(owner, method), note))


def _noting(pack: Callable[..., Any], note: Callable[[Sequence[Any]], None]) -> Callable[..., Any]:
    def noting(connection: Any, *words: Any) -> Any:
        note([part for word in words[:1] for part in str(word).split()] + list(words[1:]))
        return pack(connection, *words)

    return noting


def kind_of(word: object) -> str:
    """The kind of a key; "" for other words."""
    text = _text(word)
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(text)), "") if text.startswith("hcli:") else ""


def _text(word: object) -> str:
    return word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word)


def refused(path: Path, guarded: Guarded) -> list[str]:
    """The recorded commands that a Redis with our users would refuse to the user who sent them; the owner also sends some as `admin`."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    sent = {(user, kind): words for user, kind, words in lines}
    with guarded.client("tester") as client:
        wrong = [(user, words) for (user, _), words in sent.items() if not _may(client, user, words)]
        wrong = [(user, words) for user, words in wrong if user != "owner" or not _may(client, "admin", words)]
        return [f"{user}: {' '.join(words)[:200]}" for user, words in wrong]


def _may(client: Redis, user: str, words: Sequence[str]) -> bool:
    try:
        return "OK" in _text(client.execute_command("ACL", "DRYRUN", user, *words))  # type: ignore[no-untyped-call]
    except ResponseError:
        return False
