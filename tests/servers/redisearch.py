"""A loopback server in the place of Redis with the search module: a real redis-server behind it does everything but the module's commands.

Those are carried out here over the hashes of that server (redisearch_commands.py). What was sent stands in `log`, what was refused as out of
place in `complaints`. Faults are asked for by the name of a command, as a list that is used up one command at a time, or for all: "drop" (the
connection is closed), "hang" (no answer until the end), or an error reply such as "-LOADING …". `busy`: so many FT.INFO say that Redis is
still indexing.
"""

from __future__ import annotations

import os
import secrets
import socket
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase
from typing import Any, Self

from redis import Redis

from shared.vectors.on_server import is_ours
from tests.servers.redisearch_commands import Index, Refused, info_of, parse_create, parse_search, run_search

MODULE_VERSION = 21_005
#: Commands that leave the hashes as they are.
READING = frozenset("HGET HMGET HGETALL SCAN TYPE EXISTS PING INFO HELLO CLIENT AUTH SELECT".split())


class RediSearch:
    """Answers at `url` within `with`; `plain_url` is the server behind it, which has no module."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.indexes: dict[str, Index] = {}
        self.aliases: dict[str, str] = {}
        self.log: list[list[bytes]] = []
        self.complaints: list[str] = []
        self.faults: dict[str, list[str]] = {}
        self.all_faults: str | None = None
        self.busy = 0
        self.over = threading.Event()
        self.lock = threading.RLock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        from tests.support.machine import free_port, wait_for

        self.port, folder = free_port(), self._open.enter_context(tempfile.TemporaryDirectory())
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = self._open.enter_context(subprocess.Popen([*command, *self._options], stdout=subprocess.DEVNULL))
        self._open.callback(process.terminate)
        self.plain_url = f"redis://127.0.0.1:{self.port}/0"
        wait_for(self._answers, "redis-server to start")
        self.redis: Redis = Redis.from_url(self.plain_url, protocol=2)
        self._open.callback(self.redis.close)
        server = _Server(("127.0.0.1", 0), type("Bound", (Connection,), {"api": self}))
        self._open.callback(server.server_close)
        self._open.callback(server.shutdown)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"redis://127.0.0.1:{server.server_address[1]}/0"
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._open.close()

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def sent(self, *names: str) -> list[list[bytes]]:
        """Commands of these names, or of the search module."""
        return [one for one in self.log if one[0].decode() in names or (not names and one[0].startswith(b"FT."))]

    def fault(self, name: str) -> str | None:
        with self.lock:
            if self.all_faults and name not in ("HELLO", "CLIENT"):
                return self.all_faults
            waiting = self.faults.get(name)
            fault = waiting.pop(0) if waiting else "ok"
            return None if fault == "ok" else fault

    def carry_out(self, command: list[bytes]) -> Any:
        """The reply to a command of the module; Refused if it is not as documented."""
        with self.lock:
            try:
                return COMMANDS[command[0].decode()](self, command[1:])
            except Refused as error:
                if "Unknown index name" not in str(error):
                    self.complaints.append(f"{b' '.join(command)[:300]!r}: {error}")
                raise

    def touched(self, command: list[bytes]) -> None:
        """Redis tells the module of every changed key; here its rows are read again before the next answer."""
        with self.lock:
            if command[0] in (b"FLUSHALL", b"FLUSHDB"):
                self.indexes.clear()
                self.aliases.clear()
            names = [word.decode("utf-8", "replace") for word in command[1:]]
            for index in self.indexes.values():
                index.stale |= any(index.covers(name) for name in names)

    def find(self, name: str) -> Index:
        index = self.indexes.get(self.aliases.get(name, name))
        if index is None:
            raise Refused(f"Unknown index name {name}")
        if index.stale:
            index.load(self._hashes(index))
        return index

    def _hashes(self, index: Index) -> list[tuple[str, dict[bytes, bytes]]]:
        found = [key for prefix in index.prefixes for key in self.redis.scan_iter(match=f"{prefix}*", count=1000)]
        found = sorted(set(found), key=lambda key: (len(key), key))
        with self.redis.pipeline(transaction=False) as pipe:
            for key in found:
                pipe.hgetall(key)
            return list(zip((key.decode() for key in found), pipe.execute(), strict=True))


def _texts(words: list[bytes], count: int) -> list[str]:
    if len(words) != count:
        raise Refused("ERR wrong number of arguments")
    return [word.decode("utf-8") for word in words]


def _create(api: RediSearch, words: list[bytes]) -> Any:
    index = parse_create(words)
    if index.name in api.indexes or index.name in api.aliases:
        raise Refused("ERR Index already exists")
    api.indexes[index.name] = index
    return Simple("OK")


def _search(api: RediSearch, words: list[bytes]) -> Any:
    search = parse_search(words)
    total, found = run_search(api.find(search.index), search)
    return Found(total, found, content=search.content)


def _info(api: RediSearch, words: list[bytes]) -> Any:
    (name,) = _texts(words, 1)
    api.busy, busy = max(0, api.busy - 1), api.busy > 0
    return info_of(api.find(name), busy=busy)


def _list(api: RediSearch, words: list[bytes]) -> Any:
    _texts(words, 0)
    return list(api.indexes)


def _drop_index(api: RediSearch, words: list[bytes]) -> Any:
    """FT.DROPINDEX index [DD]: DD deletes the hashes that are indexed, not those that failed to be; aliases of the index go with it."""
    name, *more = (word.decode("utf-8") for word in words)
    if more not in ([], ["DD"]):
        raise Refused("ERR wrong number of arguments")
    index = api.find(name)
    if more and index.keys:
        api.redis.delete(*index.keys)
    del api.indexes[index.name]
    api.aliases = {alias: target for alias, target in api.aliases.items() if target != index.name}
    return Simple("OK")


def _alias(api: RediSearch, words: list[bytes], *, update: bool) -> Any:
    """FT.ALIASADD alias index, FT.ALIASUPDATE alias index: only the second may move an alias; neither takes an alias for an index."""
    alias, name = _texts(words, 2)
    if name not in api.indexes:
        raise Refused(f"Unknown index name {name}")
    if alias in api.indexes or (alias in api.aliases and not update):
        raise Refused("ERR Alias already exists")
    api.aliases[alias] = name
    return Simple("OK")


def _alias_del(api: RediSearch, words: list[bytes]) -> Any:
    (alias,) = _texts(words, 1)
    if api.aliases.pop(alias, None) is None:
        raise Refused("ERR Alias does not exist")
    return Simple("OK")


COMMANDS: dict[str, Callable[[RediSearch, list[bytes]], Any]] = {
    "FT.CREATE": _create,
    "FT.SEARCH": _search,
    "FT.INFO": _info,
    "FT._LIST": _list,
    "FT.DROPINDEX": _drop_index,
    "FT.ALIASADD": lambda api, words: _alias(api, words, update=False),
    "FT.ALIASUPDATE": lambda api, words: _alias(api, words, update=True),
    "FT.ALIASDEL": _alias_del,
}


class Simple(str):
    """A simple string reply."""

    __slots__ = ()


class Found:
    """The reply to FT.SEARCH, in the two forms that redis.io/docs/latest/commands/ft.search documents."""

    def __init__(self, total: int, rows: list[tuple[str, dict[bytes, bytes]]], *, content: bool) -> None:
        self._total, self._rows, self._content = total, rows, content

    def resp2(self) -> list[Any]:
        rows = [
            [key, [word for pair in row.items() for word in pair]] if self._content else [key]
            for key, row in self._rows
        ]
        return [self._total, *(word for row in rows for word in row)]

    def resp3(self) -> dict[str, Any]:
        results = [
            {"id": key, "values": [], **({"extra_attributes": row} if self._content else {})} for key, row in self._rows
        ]
        return {"attributes": [], "format": "STRING", "results": results, "total_results": self._total, "warning": []}


def encode(value: Any, protocol: int) -> bytes:
    if isinstance(value, Found):
        value = value.resp3() if protocol == 3 else value.resp2()
    if isinstance(value, Simple):
        return b"+%s\r\n" % value.encode()
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, dict):
        words = [encode(word, protocol) for pair in value.items() for word in pair]
        head = b"%%%d\r\n" % len(value) if protocol == 3 else b"*%d\r\n" % len(words)
        return head + b"".join(words)
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(encode(one, protocol) for one in value)
    content = value.encode() if isinstance(value, str) else bytes(value)
    return b"$%d\r\n%s\r\n" % (len(content), content)


def read_command(stream: BufferedIOBase) -> list[bytes] | None:
    """An array of bulk strings; None at the end."""
    head = stream.readline()
    if not head.startswith(b"*"):
        return None
    words = []
    for _ in range(int(head[1:])):
        size = int(stream.readline()[1:])
        words.append(stream.read(size + 2)[:-2])
    return words


def read_reply(stream: BufferedIOBase) -> bytes:
    """One whole reply as it came, of RESP2 or RESP3."""
    head = stream.readline()
    kind = head[:1]
    if not head or kind in b"+-:_,#(" or head[1:3] == b"-1":
        return head
    size = int(head[1:])
    if kind in b"$=!":
        return head + stream.read(size + 2)
    return head + b"".join(read_reply(stream) for _ in range(size * (2 if kind == b"%" else 1)))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Connection(socketserver.StreamRequestHandler):
    api: RediSearch
    disable_nagle_algorithm = True  # many small replies: each would wait 40 ms for the one before

    def handle(self) -> None:
        self.protocol = 2
        with socket.create_connection(("127.0.0.1", self.api.port)) as behind, behind.makefile("rb") as replies:
            behind.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            try:
                while command := read_command(self.rfile):
                    command[0] = command[0].upper()
                    answer = self._answer(command, behind, replies)
                    if answer is None:
                        return
                    self.wfile.write(answer)
            except OSError:  # the client gave up waiting, or was killed
                return

    def _answer(self, command: list[bytes], behind: socket.socket, replies: BufferedIOBase) -> bytes | None:
        """The reply, None to close the connection."""
        name = command[0].decode()
        self.api.log.append(command)
        fault = self.api.fault(name)
        if fault == "hang":
            self.api.over.wait(600)
        if fault in ("hang", "drop"):
            return None
        if fault:
            return fault.encode() + b"\r\n"
        if name in COMMANDS:
            try:
                return encode(self.api.carry_out(command), self.protocol)
            except Refused as error:
                return f"-{error}\r\n".encode()
        behind.sendall(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in command))
        reply = read_reply(replies)
        if name not in READING:
            self.api.touched(command)
        if name == "HELLO" and not reply.startswith(b"-") and len(command) > 1:
            self.protocol = int(command[1])
        return _with_module(reply) if name == "INFO" and command[1:] in ([], [b"modules"], [b"everything"]) else reply


def _with_module(reply: bytes) -> bytes:
    """INFO of a server that has the module."""
    told = reply.partition(b"\r\n")[2].removesuffix(b"\r\n")
    told += b"module:name=search,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]\r\n" % MODULE_VERSION
    return b"$%d\r\n%s\r\n" % (len(told), told)


@contextmanager
def redis_settings() -> Iterator[dict[str, Any]]:
    """Settings of an installation of its own on a stand-in, or on the server of HMEM_TEST_REDIS_STACK_URL, where what it made is removed."""
    url, name = os.environ.get("HMEM_TEST_REDIS_STACK_URL"), f"test-{secrets.token_hex(4)}"
    if url is None:
        with RediSearch() as server:
            yield {"redis_stack_url": server.url, "index_name": name}
            assert server.complaints == []
        return
    try:
        yield {"redis_stack_url": url, "index_name": name}
    finally:
        remove_indexes(url, name)


def remove_indexes(url: str, index_name: str) -> None:
    """All that tests under this name have made: an index takes its hashes and its alias along."""
    client: Redis = Redis.from_url(url, protocol=2)
    listed = [name.decode() for name in client.execute_command("FT._LIST")]  # type: ignore[no-untyped-call]
    for name in listed:
        if is_ours(name, index_name):
            client.ft(name).dropindex(delete_documents=True)
    client.close()
