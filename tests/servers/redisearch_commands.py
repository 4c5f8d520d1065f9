"""What the search module of Redis does, as far as it is used here: commands parsed by their documented form, searches exact.

The forms are those of redis.io/docs/latest/commands/ft.create, ft.search, ft.info, ft.dropindex, ft.aliasupdate (RediSearch 2.10), and of
its pages on query syntax, tags and vectors; each stands above its parser. What is out of place is a `Refused`, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Refused(Exception):
    """An error reply."""


class Arguments:
    """The words of a command, taken from the left."""

    def __init__(self, words: list[bytes]) -> None:
        self._words, self._at = words, 0

    def next(self, what: str) -> str:
        return self.raw(what).decode("utf-8")

    def raw(self, what: str) -> bytes:
        if self._at == len(self._words):
            raise Refused(f"ERR wrong number of arguments: {what} is missing")
        self._at += 1
        return self._words[self._at - 1]

    def number(self, what: str) -> int:
        word = self.next(what)
        if not re.fullmatch(r"[0-9]+", word):
            raise Refused(f"SEARCH_PARSE_ARGS Bad arguments for {what}: {word!r} is no number")
        return int(word)

    def take(self, *tokens: str) -> str | None:
        """The next word in capitals if it is one of these."""
        if self._at < len(self._words) and self._words[self._at].decode("utf-8", "replace").upper() in tokens:
            return self.next("").upper()
        return None

    @property
    def left(self) -> bool:
        return self._at < len(self._words)

    def end(self) -> None:
        if self.left:
            raise Refused(f"SEARCH_PARSE_ARGS Unknown argument `{self.next('')}` at position {self._at}")


@dataclass
class Field:
    name: str
    kind: str
    options: dict[str, str] = field(default_factory=dict)

    def tags(self, value: bytes) -> set[str]:
        """Documented under "Tags": split by the separator, blanks around each removed, lower case unless CASESENSITIVE."""
        parts = value.decode("utf-8", "replace").split(self.options.get("SEPARATOR", ","))
        tags = {part.strip() for part in parts} - {""}
        return tags if "CASESENSITIVE" in self.options else {tag.lower() for tag in tags}


@dataclass
class Index:
    """What FT.CREATE declared, and the rows that were found under its prefixes when they were last looked at."""

    name: str
    prefixes: list[str] = field(default_factory=list)
    fields: dict[str, Field] = field(default_factory=dict)
    stale: bool = True
    keys: list[str] = field(default_factory=list)
    rows: list[dict[bytes, bytes]] = field(default_factory=list)
    failures: int = 0
    tags: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    vectors: dict[str, Any] = field(default_factory=dict)

    def covers(self, key: str) -> bool:
        return any(key.startswith(prefix) for prefix in self.prefixes)

    def load(self, hashes: Iterable[tuple[str, dict[bytes, bytes]]]) -> None:
        """A hash with a value that does not fit its field is not indexed, and counted."""
        self.keys, self.rows, self.failures, self.tags, self.vectors, self.stale = [], [], 0, {}, {}, False
        for key, row in hashes:
            if all(self._fits(one, row.get(one.name.encode())) for one in self.fields.values()):
                self.keys.append(key)
                self.rows.append(row)
            else:
                self.failures += 1
        for one in self.fields.values():
            if one.kind == "TAG":
                for number, row in enumerate(self.rows):
                    for tag in one.tags(row.get(one.name.encode(), b"")):
                        self.tags.setdefault((one.name, tag), []).append(number)
            if one.kind == "VECTOR" and self.rows:
                content = b"".join(row[one.name.encode()] for row in self.rows)
                found = np.frombuffer(content, "<f4").reshape(len(self.rows), -1)
                self.vectors[one.name] = found / np.linalg.norm(found, axis=1, keepdims=True)

    def _fits(self, one: Field, value: bytes | None) -> bool:
        if one.kind == "VECTOR":
            return value is not None and len(value) == 4 * int(one.options["DIM"])
        if value is None or one.kind == "TAG":
            return True
        return re.fullmatch(rb"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", value) is not None


# FT.CREATE index [ON HASH|JSON] [PREFIX count prefix [prefix ...]] [FILTER f] [LANGUAGE l] [LANGUAGE_FIELD l] [SCORE s] [SCORE_FIELD s]
#   [PAYLOAD_FIELD p] [MAXTEXTFIELDS] [TEMPORARY s] [NOOFFSETS] [NOHL] [NOFIELDS] [NOFREQS] [STOPWORDS count [word ...]] [SKIPINITIALSCAN]
#   SCHEMA field [AS alias] TEXT|TAG|NUMERIC|GEO|VECTOR|GEOSHAPE [options of the type] [SORTABLE [UNF]] [NOINDEX] [field ...]
# Of these the stand-in knows hashes, prefixes, the score of 1, and tags, numbers and vectors.
def parse_create(words: list[bytes]) -> Index:
    given = Arguments(words)
    index = Index(given.next("index"))
    if given.take("ON") and not given.take("HASH"):
        raise Refused("ERR Invalid rule type: the stand-in knows hashes")
    if given.take("PREFIX"):
        index.prefixes = [given.next("PREFIX") for _ in range(given.number("PREFIX"))]
    if given.take("SCORE") and float(given.next("SCORE")) != 1:
        raise Refused("ERR Invalid score: the stand-in knows 1")
    if not index.prefixes or not given.take("SCHEMA"):
        raise Refused("ERR No schema found")
    while given.left:
        one = _parse_field(given)
        if one.name in index.fields:
            raise Refused(f"ERR Duplicate field in schema - {one.name}")
        index.fields[one.name] = one
    if not index.fields:
        raise Refused("ERR Fields arguments are missing")
    return index


def _parse_field(given: Arguments) -> Field:
    one = Field(given.next("field"), given.take("TAG", "NUMERIC", "VECTOR") or "")
    if one.kind == "TAG":  # TAG [SEPARATOR sep] [CASESENSITIVE]
        if given.take("SEPARATOR"):
            one.options["SEPARATOR"] = given.next("SEPARATOR")
            if len(one.options["SEPARATOR"]) != 1:
                raise Refused("ERR Tag separator must be a single character")
        if given.take("CASESENSITIVE"):
            one.options["CASESENSITIVE"] = ""
    elif one.kind == "VECTOR":
        one.options = _parse_vector(given)
    elif one.kind != "NUMERIC":
        raise Refused(f"ERR Invalid field type for field `{one.name}`")
    if one.kind != "VECTOR" and given.take("SORTABLE"):
        one.options["SORTABLE"] = ""
    return one


# VECTOR FLAT|HNSW count [TYPE FLOAT32|FLOAT64|… DIM n DISTANCE_METRIC L2|IP|COSINE, all three needed] [INITIAL_CAP n] [BLOCK_SIZE n: FLAT]
#   [M n] [EF_CONSTRUCTION n] [EF_RUNTIME n] [EPSILON f]: HNSW
def _parse_vector(given: Arguments) -> dict[str, str]:
    options = {"ALGORITHM": given.take("FLAT", "HNSW") or ""}
    more = {"FLAT": {"BLOCK_SIZE"}, "HNSW": {"M", "EF_CONSTRUCTION", "EF_RUNTIME", "EPSILON"}}
    count = given.number("VECTOR")
    if not options["ALGORITHM"] or count % 2:
        raise Refused("ERR Bad arguments for vector similarity algorithm")
    for _ in range(count // 2):
        name = given.next("VECTOR").upper()
        if name in options or name not in {
            "TYPE",
            "DIM",
            "DISTANCE_METRIC",
            "INITIAL_CAP",
            *more[options["ALGORITHM"]],
        }:
            raise Refused(f"ERR Bad arguments for algorithm {options['ALGORITHM']}: {name}")
        options[name] = given.next(name).upper()
    if options.get("TYPE") != "FLOAT32" or options.get("DISTANCE_METRIC") != "COSINE":
        raise Refused(
            "ERR Missing mandatory parameter: TYPE and DISTANCE_METRIC (the stand-in knows FLOAT32 and COSINE)"
        )
    if not 1 <= int(options.get("DIM", 0)) <= 32768:
        raise Refused("ERR Invalid vector dimension: DIM")
    return options


# FT.SEARCH index query [NOCONTENT] … [TIMEOUT ms] … [RETURN count identifier [AS property] …] … [SORTBY field [ASC|DESC]] [LIMIT offset num]
#   [PARAMS nargs name value [name value ...]] [DIALECT n]      (options in any order, each once)
@dataclass
class Search:
    index: str
    query: str
    dialect: int = 1
    content: bool = True
    returned: list[str] | None = None
    sort_by: str = ""
    limit: tuple[int, int] = (0, 10)
    params: dict[str, bytes] = field(default_factory=dict)


def parse_search(words: list[bytes]) -> Search:
    given = Arguments(words)
    search = Search(given.next("index"), given.next("query"))
    seen: set[str] = set()
    while token := given.take("NOCONTENT", "TIMEOUT", "RETURN", "SORTBY", "LIMIT", "PARAMS", "DIALECT"):
        if token in seen:
            raise Refused(f"SEARCH_PARSE_ARGS {token} is given twice")
        seen.add(token)
        _OPTIONS[token](search, given)
    given.end()
    return search


def _no_content(search: Search, given: Arguments) -> None:
    search.content = False


def _timeout(search: Search, given: Arguments) -> None:
    given.number("TIMEOUT")


def _return(search: Search, given: Arguments) -> None:
    search.returned = [given.next("RETURN") for _ in range(given.number("RETURN"))]


def _sort_by(search: Search, given: Arguments) -> None:
    search.sort_by = given.next("SORTBY")
    if given.take("ASC", "DESC") == "DESC":
        raise Refused("ERR the stand-in sorts upwards")


def _limit(search: Search, given: Arguments) -> None:
    search.limit = (given.number("LIMIT"), given.number("LIMIT"))


def _params(search: Search, given: Arguments) -> None:
    count = given.number("PARAMS")
    if not count or count % 2:
        raise Refused("SEARCH_PARSE_ARGS Parameters must be specified in PARAM VALUE pairs")
    search.params = {given.next("PARAMS"): given.raw("PARAMS") for _ in range(count // 2)}


def _dialect(search: Search, given: Arguments) -> None:
    search.dialect = given.number("DIALECT")
    if not 1 <= search.dialect <= 4:
        raise Refused("SEARCH_PARSE_ARGS DIALECT requires a non negative integer >=1 and <= 4")


_OPTIONS: dict[str, Callable[[Search, Arguments], None]] = {
    "NOCONTENT": _no_content,
    "TIMEOUT": _timeout,
    "RETURN": _return,
    "SORTBY": _sort_by,
    "LIMIT": _limit,
    "PARAMS": _params,
    "DIALECT": _dialect,
}

#: filter=>[KNN count @field $blob [HYBRID_POLICY ADHOC_BF|BATCHES] [BATCH_SIZE n] [EF_RUNTIME n] [AS name]], dialect 2 or above; the filter is
#: `*`, or tags of one field in parentheses: (@field:{a | b})
KNN = re.compile(
    r"(?P<filter>\*|\(.*\))=>\[KNN (?P<k>[0-9]+) @(?P<field>\w+) \$(?P<blob>\w+)(?: HYBRID_POLICY (?P<policy>ADHOC_BF|BATCHES))?"
    r"(?: AS (?P<score>\w+))?\]"
)
#: A tag with any other character than these needs a backslash before it.
TAGS = re.compile(r"@(\w+):\{((?:[A-Za-z0-9_ |]|\\.)+)\}")


def run_search(index: Index, search: Search) -> tuple[int, list[tuple[str, dict[bytes, bytes]]]]:
    """How many rows match, and those that LIMIT asks for, each with what is to be returned of it."""
    knn = KNN.fullmatch(search.query)
    scored: dict[int, float] = {}
    if knn is None:
        rows, name = _filtered(index, search.query), ""
    else:
        if search.dialect < 2:
            raise Refused("SEARCH_SYNTAX Syntax error: vector queries need DIALECT 2")
        rows, scored = _compared(index, search, knn)
        name = knn["score"] or f"__{knn['field']}_score"
    if search.sort_by and search.sort_by not in {name, *index.fields}:
        raise Refused(f"SEARCH_PROP_NOT_FOUND Property `{search.sort_by}` not loaded nor in schema")
    start, length = search.limit
    found = []
    for row in rows[start : start + length]:
        values = index.rows[row] | ({name.encode(): b"%.12g" % scored[row]} if name else {})
        wanted = list(values) if search.returned is None else [one.encode() for one in search.returned]
        found.append((index.keys[row], {one: values[one] for one in wanted if one in values}))
    return len(rows), found


def _filtered(index: Index, query: str) -> list[int]:
    if query == "*":
        return list(range(len(index.rows)))
    parts = TAGS.fullmatch(query[1:-1] if query.startswith("(") and query.endswith(")") else query)
    one = index.fields.get(parts[1]) if parts else None
    if parts is None or one is None or one.kind != "TAG":
        raise Refused(f"SEARCH_SYNTAX Syntax error at offset 0 near {query}")
    tags = [re.sub(r"\\(.)", r"\1", part.strip()) for part in parts[2].split("|")]
    wanted = tags if "CASESENSITIVE" in one.options else [tag.lower() for tag in tags]
    return sorted({row for tag in wanted for row in index.tags.get((one.name, tag), [])})


def _compared(index: Index, search: Search, knn: re.Match[str]) -> tuple[list[int], dict[int, float]]:
    one, blob = index.fields.get(knn["field"]), search.params.get(knn["blob"])
    if one is None or one.kind != "VECTOR":
        raise Refused(f"SEARCH_SYNTAX Unknown field at offset 0 near {knn['field']}")
    if blob is None or len(blob) != 4 * int(one.options["DIM"]):
        raise Refused(
            "SEARCH_VECTOR Error parsing vector similarity query: query vector blob size does not match index's expected size."
        )
    rows = _filtered(index, knn["filter"])
    asked = np.frombuffer(blob, "<f4")
    if not rows:
        return [], {}
    distances = 1.0 - index.vectors[one.name][rows] @ (asked / np.linalg.norm(asked))
    order = np.argsort(distances, kind="stable")[: int(knn["k"])]
    return [rows[at] for at in order], {rows[at]: float(distances[at]) for at in order}


def info_of(index: Index, *, busy: bool) -> dict[str, Any]:
    """FT.INFO: pairs of names and values; numbers mostly as text. While Redis is still indexing (`busy`) it has fewer rows."""
    attributes: list[Any] = []
    for one in index.fields.values():
        told = ["identifier", one.name, "attribute", one.name, "type", one.kind]
        if one.kind == "VECTOR":
            more = {"algorithm": "ALGORITHM", "data_type": "TYPE", "dim": "DIM", "distance_metric": "DISTANCE_METRIC"}
            told += [word for name, option in more.items() for word in (name, one.options[option])]
        else:
            told += [word for pair in one.options.items() for word in pair if word]
        attributes.append(told)
    return {
        "index_name": index.name,
        "index_options": [],
        "index_definition": ["key_type", "HASH", "prefixes", index.prefixes, "default_score", "1"],
        "attributes": attributes,
        "num_docs": str(len(index.rows) // 2 if busy else len(index.rows)),
        "hash_indexing_failures": str(index.failures),
        "indexing": str(int(busy)),
        "percent_indexed": "0.5" if busy else "1",
        "number_of_uses": 1,
        "cleaning": 0,
    }
