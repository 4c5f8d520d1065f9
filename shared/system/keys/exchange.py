"""The shared keys in Redis, where the programs of the day host and of the night host meet; each is encrypted with the owner's key.

Nothing is destroyed because Redis says so: whoever may write there could destroy every chat. A key that `hmem forget` destroyed is marked, so that a
host that has not heard of it does not offer it again; that host destroys its own copy when it applies the owner's signed tombstone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

import orjson
import structlog

from shared.system.keys.keyring import DataKey, Keyring
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

log = structlog.get_logger()

#: Fields of the hash: the owner's key, and ahead of the id of a destroyed one.
_ABOUT, _GONE = "about", "gone:"


class Exchange:
    """`hcli:mem:keyring`. Redis may be away: then nothing is exchanged, and the next time is soon enough."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._client: Redis | None = None

    def sync(self, ring: Keyring) -> bool:
        """Take over and offer shared keys. Whether the ring changed."""
        from redis import RedisError

        try:
            found = cast(dict[bytes, bytes], self._redis().hgetall(keys.KEYRING))
            fields = {name.decode(): value.decode() for name, value in found.items()}
            ring.hear_of_destroyed([name.removeprefix(_GONE) for name in fields if name.startswith(_GONE)])
            changed = self._follow(ring, fields)
            if changed or self._is_behind(ring, fields):
                self.replace(
                    ring, fields
                )  # ours may be there under an earlier owner's key, which nobody else could open
            new = [key for name, value in fields.items() if (key := self._parsed(ring, name, value, fields))]
            if new:
                ring.learn(new)
            self.destroy(
                [i for i in ring.destroyed if i in fields or f"{_GONE}{i}" not in fields]
            )  # Redis was away, or lost
            self.offer(ring, [key for i, key in ring.keys.items() if not key.local and i not in fields], fields)
        except (RedisError, OSError, UnicodeDecodeError) as error:
            log.warning("the keyring in Redis cannot be reached", error=str(error))
            return False
        return changed or bool(new)

    def offer(self, ring: Keyring, new: Collection[DataKey], fields: Collection[str] | None = None) -> None:
        """Add keys that Redis does not have, unless they were destroyed."""
        from redis import RedisError

        entries = {k.key_id: k.sealed(ring.owner) for k in new if fields is None or f"{_GONE}{k.key_id}" not in fields}
        if fields is None or _ABOUT not in fields:
            entries[_ABOUT] = _about(ring)
        if not new and fields is not None and _ABOUT in fields:
            return
        try:
            if entries:
                self._redis().hset(keys.KEYRING, mapping=entries)  # type: ignore[arg-type]
        except (RedisError, OSError) as error:
            log.warning("the keyring in Redis cannot be reached", error=str(error))

    def destroy(self, ids: Collection[str]) -> None:
        """RedisError if it cannot be reached."""
        if ids:
            pipe = self._redis().pipeline(transaction=False)  # for which users of Redis would need MULTI
            pipe.hset(keys.KEYRING, mapping={f"{_GONE}{one}": "1" for one in ids})
            pipe.hdel(keys.KEYRING, *ids)
            pipe.execute()

    def replace(self, ring: Keyring, fields: Collection[str]) -> None:
        """After a change of the owner's key: every key anew, except those that another host has destroyed. RedisError if it cannot be reached."""
        shared = [key for i, key in ring.keys.items() if not key.local and f"{_GONE}{i}" not in fields]
        entries: dict[Any, Any] = {key.key_id: key.sealed(ring.owner) for key in shared}
        self._redis().hset(keys.KEYRING, mapping=entries | {_ABOUT: _about(ring)})

    def _follow(self, ring: Keyring, fields: dict[str, str]) -> bool:
        """Whether the owner's key was changed elsewhere, and ours leads to the new one."""
        try:
            about = orjson.loads(fields[_ABOUT])
            if about["owner"] == ring.owner.fingerprint or about["owner"] in ring.successors:
                return False
            return ring.adopt(about["successors"], about["owner"])
        except (KeyError, ValueError, TypeError):
            return False

    def _is_behind(self, ring: Keyring, fields: dict[str, str]) -> bool:
        """Whether the owner's key was changed here, and Redis was away then."""
        try:
            return orjson.loads(fields[_ABOUT])["owner"] in ring.successors
        except (KeyError, ValueError, TypeError):
            return False

    def _parsed(self, ring: Keyring, name: str, value: str, fields: dict[str, str]) -> DataKey | None:
        """A key that the ring does not have yet."""
        unknown = name != _ABOUT and not name.startswith(_GONE) and f"{_GONE}{name}" not in fields
        if not unknown or name in ring.keys or name in ring.destroyed:
            return None
        return DataKey.unsealed(name, value, ring.owner)

    def _redis(self) -> Redis:
        if self._client is None:
            from shared.wire.client import KEYRING, open_redis

            self._client = open_redis(self._url, KEYRING)
        return self._client


def _about(ring: Keyring) -> str:
    return orjson.dumps({"owner": ring.owner.fingerprint, "successors": dict(ring.successors)}).decode()
