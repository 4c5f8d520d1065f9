"""Redis as our processes ask it, and what they read there. Whoever may write to it can leave anything under our keys: a name or a number is taken
for what it may be, and an answer that a key holds something else than ours names that key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from redis import Redis, RedisError, ResponseError
from redis.asyncio import Redis as AsyncRedis

from shared.text.format import shorten
from shared.wire import keys
from shared.wire.sending import make_cancellable

#: How Redis says that a key holds another type, or something that is no number.
_WRONG_VALUE = re.compile(r"WRONGTYPE|value is not an? (?:integer|float|valid float)|would overflow")
#: Runs are numbers below this (manifest_shape.py); a run as a dispatcher writes it.
RUNS = 10**9
_RUN = re.compile(rb"[0-9]{1,9}")
_COUNT = re.compile(rb"[0-9]{1,18}")
#: Characters of a name that are shown.
SHOWN_CHARACTERS = 100
#: What a key's name begins with → the type that we keep there; the longest comes first.
_TYPES = sorted(((key.pattern.partition("{")[0], key.type) for key in keys.KEYS), reverse=True)


def run_of(raw: bytes | None) -> int | None:
    """A run as Redis holds it; 0 if nothing stands there, None for what is no run."""
    if raw is None:
        return 0
    return int(raw) if _RUN.fullmatch(raw) else None


def count_of(raw: bytes | None) -> int:
    """A count as Redis holds it; 0 for what is none."""
    return int(raw) if raw and _COUNT.fullmatch(raw) else 0


def living(client: Redis) -> dict[str, int | None]:
    """Dispatchers that live → run that they serve; 0 for none, None for what is no run. Any name may stand there."""
    served = cast(dict[bytes, bytes], client.hgetall(keys.RELEASE))
    names = {raw: raw.decode("utf-8", "replace") for raw in cast(set[bytes], client.smembers(keys.WORKERS))}
    return {name: run_of(served.get(raw)) for raw, name in names.items() if client.exists(keys.lease(name))}


def shown(raw: bytes | str, characters: int = SHOWN_CHARACTERS) -> str:
    """Text out of Redis for a sentence: without what a terminal would obey, and not endless."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return shorten("".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text), characters)


def is_wrong_value(error: BaseException) -> bool:
    """Whether Redis says that a key does not hold what we keep there."""
    return isinstance(error, ResponseError) and bool(_WRONG_VALUE.search(str(error)))


def open_redis(url: str, **options: Any) -> Redis:
    client: Redis = _Naming.from_url(url, **options)
    return client


def open_async_redis(url: str, **options: Any) -> AsyncRedis:
    client: AsyncRedis = _AsyncNaming.from_url(url, **options)
    make_cancellable(client)
    return client


class _Naming(Redis):
    """Names the key in an error that a key holds something else. (A pipeline names the command by itself.)"""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            if not is_wrong_value(error):
                raise
            found = names = _keys_of(args)
            if len(names) > 1:
                try:
                    types = [super(_Naming, self).execute_command("TYPE", name) for name in names]  # type: ignore[no-untyped-call]
                    found = _of_another_type(names, types)
                except RedisError:  # not every user may ask
                    pass
            raise _naming(error, found) from error


class _AsyncNaming(AsyncRedis):
    """The same."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            if not is_wrong_value(error):
                raise
            found = names = _keys_of(args)
            if len(names) > 1:
                try:
                    asked = super().execute_command
                    types = [await asked("TYPE", name) for name in names]  # type: ignore[no-untyped-call]
                    found = _of_another_type(names, types)
                except RedisError:
                    pass
            raise _naming(error, found) from error


def _keys_of(command: Sequence[Any]) -> list[str | bytes]:
    """The keys that a command may have stumbled over: all of a script's, else the first."""
    if str(command[0]).upper() in ("EVAL", "EVALSHA"):
        return list(command[3 : 3 + int(command[2])])
    return list(command[1:2])


def _of_another_type(names: list[str | bytes], types: Sequence[bytes | str]) -> list[str | bytes]:
    """Those that do not hold the type that we keep there; all of them if each does."""
    held = [one.decode() if isinstance(one, bytes) else one for one in types]
    return [name for name, kind in zip(names, held, strict=True) if kind not in ("none", _type_of(name))] or names


def _type_of(name: str | bytes) -> str | None:
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
    kind = next((kind for beginning, kind in _TYPES if text.startswith(beginning)), None)
    return "zset" if kind == "sorted set" else kind


def _naming(error: ResponseError, names: Sequence[str | bytes]) -> ResponseError:
    return ResponseError(f"{str(error).rstrip('.')}: {' or '.join(map(shown, names))}")
