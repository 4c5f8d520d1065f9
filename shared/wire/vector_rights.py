"""What users may do besides where vectors are kept in a Redis 8 (docs/redis-keys.md)."""

from __future__ import annotations

from shared.wire import keys
from shared.wire.rights import Right, both, reads, without_keys

VECTOR_RELEASES, VECTOR_PARTS, VECTOR_ALIASES = (
    keys.vector_release("*"),
    keys.VECTOR_PARTS_PREFIX + "*",
    keys.vector_alias("*"),
)

#: User → additional rights where vectors are stored in the same Redis: versions before 8 do not know these commands.
VECTOR_RIGHTS: dict[str, tuple[Right, ...]] = {
    "dispatcher": (
        reads("HGET HMGET", VECTOR_RELEASES, why="which vectors a chat has in the release that is served"),
        both("VSIM", VECTOR_PARTS, why="vector search; for Redis 8.0 it reads and writes its key, as any command of vector sets"),
    ),
    "night": (
        without_keys("INFO MULTI EXEC", "checks whether there are vector sets; begins a release in one transaction"),
        both(
            "HGET HMGET HGETALL HSET HDEL COPY UNLINK", VECTOR_RELEASES,
            why="begins a release as a copy of the last one; removes releases that are not used any more",
        ),
        both("VADD VCARD VEMB VSIM UNLINK", VECTOR_PARTS, why="writes vectors, and verifies them"),
        both("GET SET UNLINK", VECTOR_ALIASES, why="the alias follows the current release"),
    ),
    "owner": (
        both("HGET HMGET HGETALL HSET UNLINK", VECTOR_RELEASES, why="`hmem forget` removes what is left over; `hmem search`"),
        both("VSIM UNLINK", VECTOR_PARTS, why="the same"),
        both("GET SET UNLINK", VECTOR_ALIASES, why="`hmem release rollback` moves the alias"),
    ),
}  # fmt: skip
