"""A loopback server that speaks Qdrant's REST API, as far as we ask for it, and searches with the local mode of Qdrant's own client.

Strict: bodies are read with the client's own models, which know no other fields; an unknown path is 404 and a search without a chat is 400.
What the local mode does not know (indexes of the payload, aliases, status) is kept here. Each chat's points are a collection of the local
mode: that one looks at every point of a collection in Python, 20 ms for 800.

Faults are asked for by name, as a list that is used up one request at a time, and `fault` is that of every request after it: "ok", "drop"
(the connection is closed), "lost" (the same, after the request was obeyed), "hang", "500", "429", "html" (200 and no JSON), "redirect",
"nothing" (JSON without a result). `statuses` are those that the next looks at a collection find, before it is green.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from shared.vectors.on_server import is_ours
from tests.servers.loopback import Answering, Loopback


class Late:
    """A module that is imported when it is asked for something: Qdrant's client takes two seconds, and each process of a run collects all tests."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import qdrant_client
    from qdrant_client import models
else:
    qdrant_client, models = Late("qdrant_client"), Late("qdrant_client.models")

#: Seconds that a hanging request takes, if the server is not stopped before: more than any limit of a client.
HANG_SECONDS = 120

Model = TypeVar("Model", bound=BaseModel)


class Refused(Exception):
    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


@dataclass
class Stored:
    """A collection: how it was made, the indexes of its payload, and the chats that have points in it."""

    made: models.CreateCollection
    indexes: dict[str, Any] = field(default_factory=dict)
    chats: dict[str, str] = field(default_factory=dict)  # chat id -> name of its part


class QdrantApi(Loopback):
    """`requests`: (method, path, body) of each; `collections`, `aliases`: what is there."""

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.faults: list[str] = []
        self.fault = "ok"
        self.statuses: list[str] = []
        self.requests: list[tuple[str, str, Any]] = []
        self.collections: dict[str, Stored] = {}
        self.aliases: dict[str, str] = {}
        self.ended = threading.Event()
        self._local = qdrant_client.QdrantClient(":memory:")
        self._lock = threading.Lock()
        self._parts = 0
        super().__init__(type("Handler", (Handler,), {"api": self}))

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        super().__exit__(*error)
        self._local.close()

    def asked(self, ending: str) -> list[Any]:
        """The bodies of the requests whose path ends like this, in order."""
        return [body for _, path, body in self.requests if path.endswith(ending)]

    def next_fault(self) -> str:
        with self._lock:
            return self.faults.pop(0) if self.faults else self.fault

    def answer(self, method: str, path: str, body: bytes) -> Any:
        """The result of a request, or Refused."""
        for known, pattern, do in ROUTES:
            if known == method and (match := re.fullmatch(pattern, path)):
                with self._lock:
                    return do(self, body, *match.groups())
        raise Refused(404, f"Not found: {method} {path}")

    def find(self, name: str) -> Stored:
        found = self.collections.get(self.aliases.get(name, name))
        if found is None:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return found

    # ------------------------------------------------------------------------------------------------- collections

    def list_collections(self, _: bytes) -> Any:
        return {"collections": [{"name": name} for name in self.collections]}

    def exists(self, _: bytes, name: str) -> Any:
        return {"exists": self.aliases.get(name, name) in self.collections}

    def create(self, body: bytes, name: str) -> bool:
        made = read(models.CreateCollection, body)
        if name in self.collections or name in self.aliases:
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        if not isinstance(made.vectors, models.VectorParams):
            raise Refused(400, "Bad request: vectors: one unnamed vector is what this server knows")
        if made.vectors.size < 1:
            raise Refused(422, "Validation error in JSON body: [vectors.size: value 0 invalid, must be 1 or larger]")
        self.collections[name] = Stored(made)
        return True

    def look(self, _: bytes, name: str) -> Any:
        found = self.find(name)
        vectors = json.loads(found.made.vectors.model_dump_json(exclude_none=True))  # type: ignore[union-attr]
        hnsw = found.made.hnsw_config.model_dump(exclude_none=True) if found.made.hnsw_config else {}
        params = {"vectors": vectors, "shard_number": 1, "replication_factor": 1, "write_consistency_factor": 1, "on_disk_payload": True}  # fmt: skip
        optimizer = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0, "flush_interval_sec": 5}  # fmt: skip
        status = self.statuses.pop(0) if self.statuses else "green"
        return {
            "status": status,
            "optimizer_status": {"error": "no space left"} if status == "red" else "ok",
            "indexed_vectors_count": 0,
            "points_count": self.count_all(found),
            "segments_count": 2,
            "config": {
                "params": params,
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000, **hnsw},
                "optimizer_config": optimizer,
                "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
                "quantization_config": None,
            },
            "payload_schema": {
                name: {"data_type": params["type"], "params": params, "points": self.count_all(found)}
                for name, params in found.indexes.items()
            },
        }

    def delete(self, _: bytes, name: str) -> bool:
        found = self.collections.pop(name, None)
        for part in found.chats.values() if found else ():
            self._local.delete_collection(part)
        self.aliases = {alias: of for alias, of in self.aliases.items() if of != name}
        return found is not None

    def index(self, body: bytes, name: str) -> Any:
        asked = read(models.CreateFieldIndex, body)
        if not isinstance(asked.field_schema, BaseModel):
            raise Refused(400, "Bad request: field_schema: this server knows indexes with parameters only")
        self.find(name).indexes[asked.field_name] = json.loads(asked.field_schema.model_dump_json(exclude_none=True))
        return {"operation_id": len(self.requests), "status": "completed"}

    # ------------------------------------------------------------------------------------------------------ aliases

    def list_aliases(self, _: bytes) -> Any:
        return {"aliases": [{"alias_name": alias, "collection_name": name} for alias, name in self.aliases.items()]}

    def change_aliases(self, body: bytes) -> bool:
        """All of the changes, or none."""
        aliases = dict(self.aliases)
        for action in read(models.ChangeAliasesOperation, body).actions:
            if isinstance(action, models.DeleteAliasOperation):
                aliases.pop(action.delete_alias.alias_name, None)
            elif isinstance(action, models.CreateAliasOperation):
                made = action.create_alias
                if made.collection_name not in self.collections:
                    raise Refused(404, f"Not found: Collection `{made.collection_name}` doesn't exist!")
                if made.alias_name in self.collections:
                    raise Refused(409, f"Wrong input: Collection `{made.alias_name}` already exists!")
                aliases[made.alias_name] = made.collection_name
            else:
                raise Refused(400, "Bad request: rename_alias: not known to this server")
        self.aliases = aliases
        return True

    # ------------------------------------------------------------------------------------------------------- points

    def upsert(self, body: bytes, name: str) -> Any:
        found, batch = self.find(name), read(models.PointsBatch, body).batch
        vectors, payloads = batch.vectors, batch.payloads
        size = found.made.vectors.size  # type: ignore[union-attr]
        if not isinstance(vectors, list) or payloads is None or not len(batch.ids) == len(vectors) == len(payloads):
            raise Refused(400, "Bad request: batch: ids, vectors and payloads must be as many as each other")
        if wrong := [len(vector) for vector in vectors if len(vector) != size]:  # type: ignore[arg-type]
            raise Refused(400, f"Wrong input: Vector dimension error: expected dim: {size}, got {wrong[0]}")
        by_chat: dict[str, list[models.PointStruct]] = {}
        for id_, vector, payload in zip(batch.ids, vectors, payloads, strict=True):
            point = models.PointStruct(id=id_, vector=vector, payload=payload)  # type: ignore[arg-type]
            by_chat.setdefault(payload["chat_id"], []).append(point)
        for chat_id, points in by_chat.items():
            self._local.upsert(self._part(found, chat_id), points)
        return {"operation_id": len(self.requests), "status": "completed"}

    def _part(self, found: Stored, chat_id: str) -> str:
        if chat_id not in found.chats:
            self._parts += 1
            found.chats[chat_id] = f"part-{self._parts}"
            self._local.create_collection(found.chats[chat_id], vectors_config=found.made.vectors)
        return found.chats[chat_id]

    def count_all(self, found: Stored) -> int:
        return sum(self._local.count(part).count for part in found.chats.values())

    def count(self, body: bytes, name: str) -> Any:
        found, asked = self.find(name), read(models.CountRequest, body)
        if asked.filter is None:
            return {"count": self.count_all(found)}
        part = found.chats.get(chat_of(asked.filter))
        return {"count": self._local.count(part, asked.filter, exact=True).count if part else 0}

    def query(self, body: bytes, name: str) -> Any:
        return self._query(self.find(name), read(models.QueryRequest, body))

    def query_batch(self, body: bytes, name: str) -> Any:
        found = self.find(name)
        return [self._query(found, one) for one in read(models.QueryRequestBatch, body).searches]

    def _query(self, found: Stored, asked: models.QueryRequest) -> Any:
        if asked.filter is None or asked.query is None:
            raise Refused(400, "Bad request: filter, query: this server searches the points of one chat only")
        size = found.made.vectors.size  # type: ignore[union-attr]
        if isinstance(asked.query, list) and len(asked.query) != size:
            raise Refused(400, f"Wrong input: Vector dimension error: expected dim: {size}, got {len(asked.query)}")
        part = found.chats.get(chat_of(asked.filter))
        if part is None:
            return {"points": []}
        answer = self._local.query_points(
            part, query=asked.query, query_filter=asked.filter, limit=asked.limit or 10, search_params=asked.params,
            with_payload=False if asked.with_payload is None else asked.with_payload,
        )  # fmt: skip
        return {"points": [one.model_dump(mode="json", exclude_none=True) for one in answer.points]}


def read(kind: type[Model], body: bytes) -> Model:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Refused(400, f"Format error in JSON body: {where}: {first['msg']}") from error


def chat_of(asked: models.Filter) -> str:
    """The one chat that a filter asks for."""
    must = asked.must if isinstance(asked.must, list) else [asked.must]
    for condition in must:
        if not isinstance(condition, models.FieldCondition) or condition.key != "chat_id":
            continue
        if isinstance(condition.match, models.MatchValue) and isinstance(condition.match.value, str):
            return condition.match.value
    raise Refused(400, "Bad request: filter: this server counts and searches the points of one chat only")


ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("GET", r"/collections", QdrantApi.list_collections),
    ("POST", r"/collections/aliases", QdrantApi.change_aliases),
    ("GET", r"/aliases", QdrantApi.list_aliases),
    ("GET", r"/collections/([^/]+)/exists", QdrantApi.exists),
    ("PUT", r"/collections/([^/]+)", QdrantApi.create),
    ("GET", r"/collections/([^/]+)", QdrantApi.look),
    ("DELETE", r"/collections/([^/]+)", QdrantApi.delete),
    ("PUT", r"/collections/([^/]+)/index", QdrantApi.index),
    ("PUT", r"/collections/([^/]+)/points", QdrantApi.upsert),
    ("POST", r"/collections/([^/]+)/points/count", QdrantApi.count),
    ("POST", r"/collections/([^/]+)/points/query", QdrantApi.query),
    ("POST", r"/collections/([^/]+)/points/query/batch", QdrantApi.query_batch),
]


class Handler(Answering):
    api: QdrantApi

    def _do(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        self.api.requests.append((self.command, path, json.loads(body) if body else None))
        if self.api.key is not None and self.headers.get("api-key") != self.api.key:
            return self._send_bytes(401, b"Must provide an API key or an Authorization bearer token", "text/plain")
        fault = self.api.next_fault()
        if fault == "hang":
            self.api.ended.wait(HANG_SECONDS)
        if fault in ("drop", "hang"):
            return self._drop()
        if fault in REPLIES:
            return self._send_bytes(*REPLIES[fault])
        try:
            answer = {"result": self.api.answer(self.command, path, body), "status": "ok", "time": 0.001}
        except Refused as error:
            return self._send(error.status, {"status": {"error": str(error)}, "time": 0.001})
        return self._drop() if fault == "lost" else self._send(200, answer)

    do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - the library's names

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client was faster
            self.connection.shutdown(socket.SHUT_RDWR)


#: Fault -> status, content, its kind, and further headers.
REPLIES: dict[str, tuple[Any, ...]] = {
    "500": (500, b'{"status": {"error": "Service internal error: it broke"}, "time": 0.0}', "application/json"),
    "429": (
        429,
        b'{"status": {"error": "Rate limiting exceeded"}, "time": 0.0}',
        "application/json",
        {"Retry-After": "1"},
    ),
    "html": (200, b"<html>", "text/html"),
    "redirect": (302, b"<html>", "text/html", {"Location": "/sign-in"}),
    "nothing": (200, b'{"result": null, "status": "ok", "time": 0.0}', "application/json"),
}


@contextmanager
def qdrant_settings() -> Iterator[dict[str, Any]]:
    """Settings for a server of our own, or for the one that HMEM_TEST_QDRANT_URL names, which is left as it was."""
    name = f"hmemtest-{secrets.token_hex(4)}"
    url, key = os.environ.get("HMEM_TEST_QDRANT_URL"), os.environ.get("HMEM_TEST_QDRANT_API_KEY")
    if not url:
        with QdrantApi() as api:
            yield {"qdrant_url": api.url, "qdrant_api_key": None, "index_name": name}
        return
    try:
        yield {"qdrant_url": url, "qdrant_api_key": key, "index_name": name}
    finally:
        client = qdrant_client.QdrantClient(
            url=url, headers={"api-key": key} if key else None, check_compatibility=False
        )
        for one in client.get_collections().collections:
            if is_ours(one.name, name):
                client.delete_collection(one.name)  # and its alias with it
        client.close()
