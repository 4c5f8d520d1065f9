"""Files of messages as the dispatcher leaves them for the night (KEEP_MEDIA)."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

from nightly.archive.media.places import path_of
from tests.support.world import World

CHAT = "9912"
PHOTO = b"\xff\xd8\xff\xe0 a red bicycle leans on the fence \xff\xd9"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def keep(world: World, task_id: str, content: bytes, *, chat_id: str = CHAT, at: float | None = None) -> None:
    """The bytes, as the dispatcher writes them ahead of the turn."""
    digest = sha256(content)
    world.redis.set(f"hcli:mem:kept:{task_id}:{digest}", content)
    about = f"{len(content)}:{int(time.time() if at is None else at)}:{chat_id}"
    world.redis.hset("hcli:mem:kept", f"{task_id}:{digest}", about)


def entry(
    content: bytes, *, kind: str = "photo", mime: str = "image/jpeg", kept: bool = True, **more: Any
) -> dict[str, Any]:
    return {"kind": kind, "sha256": sha256(content), "size": len(content), "mime": mime, "kept": kept, **more}


def send(world: World, task_id: str, *contents: bytes, chat_id: str = CHAT, text: str = "", **more: Any) -> None:
    """A finished message with files that are kept."""
    for content in contents:
        keep(world, task_id, content, chat_id=chat_id)
    media = [entry(content) for content in contents]
    world.say(task_id, text or f"a picture of {task_id}", chat_id=chat_id, extra={"media": media}, **more)


def file_of(world: World, task_id: str, content: bytes, chat_id: str = CHAT, *, base: Path | None = None) -> Path:
    """Its place in the archive, or in the mirror `base`."""
    return (base or world.night_dir / "archive") / path_of(chat_id, task_id, sha256(content))


def waiting(world: World) -> list[bytes]:
    """What is left of kept files in Redis: keys and entries of the list."""
    client: Any = world.redis
    return sorted([*client.keys("hcli:mem:kept:*"), *client.hgetall("hcli:mem:kept")])


def media_files(base: Path) -> dict[str, bytes]:
    """Everything below a folder's `media/`."""
    return {str(path.relative_to(base)): path.read_bytes() for path in (base / "media").rglob("*") if path.is_file()}
