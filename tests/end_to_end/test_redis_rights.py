"""Every command of Redis, for every Redis user, on every kind of key: allowed is what shared/wire/users.toml says, and nothing else."""

from __future__ import annotations

import fnmatch
import re
import runpy
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from redis import Redis

from scripts.redis_users import with_vectors
from shared.wire import keys
from shared.wire.key_table import User, all_keys
from shared.wire.users import users as every_user
from tests.support.redis.users import Guarded, guarded_redis
from tests.support.world import REPOSITORY

#: Names that stand for keys: one of each kind of ours, and strangers.
OURS = [re.sub(r"\{[^{]*\}.*|\{[^{]*\}", "9912", key.pattern) for key in all_keys()]
STRANGERS = ["other", "hcli:", "hcli:other", "hcli:mem:other", "hmem", "hcli:memor", "xhcli:tasks"]
#: Redis lets everybody do this, before he says who he is.
BEFORE_LOGIN = {"auth", "hello", "quit", "reset"}
#: What stands before the keys where Redis finds them by their number or by a word; "K" is the key.
SPELLED = {
    "eval": "x 1 K", "evalsha": "x 1 K", "eval_ro": "x 1 K", "evalsha_ro": "x 1 K", "fcall": "x 1 K", "fcall_ro": "x 1 K",
    "zunion": "1 K", "zinter": "1 K", "zdiff": "1 K", "zintercard": "1 K", "sintercard": "1 K", "zmpop": "1 K MIN", "lmpop": "1 K LEFT",
    "bzmpop": "1 1 K MIN", "blmpop": "1 1 K LEFT", "zunionstore": "K 1 K", "zinterstore": "K 1 K", "zdiffstore": "K 1 K",
    "xread": "STREAMS K 0", "xreadgroup": "GROUP g c STREAMS K 0", "migrate": "h 1 K 0 1", "memory|usage": "K", "sort": "K STORE K",
    "georadius": "K 1 1 1 m STORE K", "georadiusbymember": "K m 1 m STORE K", "object|encoding": "K", "object|freq": "K",
    "object|idletime": "K", "object|refcount": "K", "pfmerge": "K 1",
}  # fmt: skip
#: What they name is a channel, no key.
CHANNELS = {"spublish", "ssubscribe", "sunsubscribe"}
#: Further ways of calling a command that ask for more than the plain one.
MORE = {
    "set": ["K x GET", "K x NX GET EX 1"],
    "migrate": ["h 1 '' 0 1 KEYS K"],
    "eval": ["x 0"],
    "evalsha": ["x 0"],
    "sort": ["K", "K GET other*"],
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_redis(tmp_path_factory.mktemp("rights")) as made:
        yield made


@pytest.fixture(scope="module")
def tester(running: Guarded) -> Iterator[Redis]:
    client: Redis = Redis.from_url(running.urls["tester"], decode_responses=True)
    client.response_callbacks.clear()  # answers as Redis gives them
    yield client
    client.close()


def commands(client: Redis) -> dict[str, list[Any]]:
    """Name → what COMMAND tells of it: arity, flags, first key, last key, step. A container's subcommands in its place."""
    told: Any = client.execute_command("COMMAND")  # type: ignore[no-untyped-call]
    return {one[0].lower(): one[1:6] for row in told for one in row[9] or [row]}


def calls(name: str, details: Sequence[Any]) -> list[list[str]]:
    """Plausible arguments, "K" for the key; the plain call first."""
    plain = SPELLED[name].split() if name in SPELLED else _by_position(name, *details)
    return [plain, *(more.replace("''", "").split(" ") for more in MORE.get(name, []))]


def _by_position(name: str, arity: int, _flags: Any, first: int, last: int, step: int) -> list[str]:
    """Each key where COMMAND says that one stands, "1" elsewhere, as many as the command wants at least."""
    words = name.split("|")
    arguments = ["1"] * (max(abs(arity), last + 1, first + 1) - len(words))
    for place in range(first, (max(last, first) if last >= 0 else len(words) + len(arguments) - 1) + 1, max(step, 1)):
        if first:
            arguments[place - len(words)] = "K"
            if last < 0:
                break
    return arguments


def allowed(user: User, name: str, call: list[str], key: str) -> bool:
    """As the table says it. What a call does to its key beyond the plain one: SET … GET reads as well."""
    if name in BEFORE_LOGIN:
        return True
    wants = {"R", "W"} if name == "set" and "GET" in call else set[str]()
    if "K" not in call:
        return name in user.keyless or any(name in right.names for right in user.selectors)
    return name in user.keyless or any(
        name in right.names
        and wants <= set(right.access)
        and any(fnmatch.fnmatchcase(key, one) for one in right.patterns)
        for right in user.selectors
    )


def tried(client: Redis, asked: Sequence[tuple[str, str, list[str]]]) -> list[bool]:
    """Whether Redis would let each user run each command with these arguments; nothing is run."""
    pipe = client.pipeline(transaction=False)
    for user, name, arguments in asked:
        pipe.execute_command("ACL", "DRYRUN", user, *name.split("|"), *arguments)  # type: ignore[no-untyped-call]
    answers = pipe.execute(raise_on_error=False)
    strange = {str(one) for one in answers if one != "OK" and "has no permissions" not in str(one)}
    assert not strange, strange
    return [one == "OK" for one in answers]


@pytest.mark.parametrize("user", every_user(), ids=lambda user: user.name)
def test_every_command_on_every_key_is_allowed_or_refused_as_the_table_says(tester: Redis, user: User) -> None:
    known = commands(tester)
    assert len(known) > 350
    asked = []
    for (name, details), key in product(known.items(), OURS + STRANGERS):
        for call in calls(name, details):
            if "K" in call or key == OURS[0]:
                asked.append((name, call, key))
    answers = tried(
        tester, [(user.name, name, [key if word == "K" else word for word in call]) for name, call, key in asked]
    )
    expected = [allowed(user, *one) for one in asked]
    wrong = [
        (name, " ".join(call), key, "allowed" if answer else "refused")
        for (name, call, key), answer, said in zip(asked, answers, expected, strict=True)
        if answer != said
    ]
    assert not wrong, wrong[:20]
    assert set(_used(asked, answers, user)) == {
        (name, pattern) for right in user.selectors for name, pattern in product(right.names, right.patterns)
    }, "each right of the table was tried"


def _used(
    asked: Sequence[tuple[str, list[str], str]], answers: Sequence[bool], user: User
) -> Iterator[tuple[str, str]]:
    for (name, call, key), answer in zip(asked, answers, strict=True):
        for right in user.selectors if answer and "K" in call else ():
            if name in right.names:
                yield from ((name, one) for one in right.patterns if fnmatch.fnmatchcase(key, one))


def test_the_keys_of_every_call_that_is_tried_are_seen_by_redis(tester: Redis) -> None:
    """Else a command would be judged as one without a key."""
    pipe, asked = tester.pipeline(transaction=False), []
    for name, details in commands(tester).items():
        for call in calls(name, details):
            if "K" in call and name not in CHANNELS:
                asked.append(f"{name} {' '.join(call)}")
                words = [word for part in name.split("|") for word in [part]] + [
                    "hcli:tasks" if w == "K" else w for w in call
                ]
                pipe.execute_command("COMMAND", "GETKEYS", *words)  # type: ignore[no-untyped-call]
    unseen = [
        one
        for one, found in zip(asked, pipe.execute(raise_on_error=False), strict=True)
        if "hcli:tasks" not in str(found)
    ]
    assert not unseen, unseen


def test_a_foreign_key_beside_an_own_one_is_refused(tester: Redis) -> None:
    """No command of any user reaches out of its keys by naming two."""
    two = ["mget K other", "mset K x other x", "rename K other", "renamenx other K", "copy K other", "copy other K", "lmove K other LEFT LEFT",
           "blmove K other LEFT LEFT 1", "rpoplpush K other", "del K other", "unlink K other", "exists K other", "evalsha x 2 K other",
           "eval x 2 K other", "sort K STORE other", "sunionstore K other", "zunionstore other 1 K", "smove K other x", "touch K other"]  # fmt: skip
    asked = [
        (user.name, line.split()[0], [key if w == "K" else w for w in line.split()[1:]])
        for user, line, key in product(every_user(), two, OURS)
    ]
    assert not [one for one, answer in zip(asked, tried(tester, asked), strict=True) if answer]


#: Said once more, without the table: who may do what to the keys that matter most.
EXPECTED = {
    ("hcli:memory:t:user", "get"): {"night", "owner"}, ("hcli:memory:t:user", "mget"): {"dispatcher", "night", "owner"},
    ("hcli:memory:t:user", "set"): {"dispatcher", "hcli-dispatcher"}, ("hcli:memory:t:user", "del"): {"owner"},
    ("hcli:memory:t:user", "unlink"): {"night"},
    ("hcli:results:t", "get"): {"bot", "hcli-bot", "dispatcher", "owner"},
    ("hcli:results:t", "set"): {"bot", "hcli-bot", "dispatcher", "hcli-dispatcher", "owner"},
    ("hcli:results:t", "del"): {"bot", "hcli-bot", "owner"}, ("hcli:results:t", "getdel"): set(),
    ("hcli:mem:tombstones", "rpush"): {"dispatcher", "owner"}, ("hcli:mem:tombstones", "lrange"): {"night", "owner"},
    ("hcli:mem:tombstones", "lrem"): set(), ("hcli:mem:tombstones", "del"): set(), ("hcli:mem:tombstones", "ltrim"): set(),
    ("hcli:mem:night:owner", "set"): {"night"}, ("hcli:mem:night:owner", "get"): {"night", "owner"},
    ("hcli:session:9912", "get"): {"dispatcher", "hcli-dispatcher", "owner"}, ("hcli:session:9912", "set"): {"dispatcher", "hcli-dispatcher"},
    ("hcli:tasks", "rpush"): {"bot", "hcli-bot", "owner"}, ("hcli:tasks", "lpush"): {"dispatcher"}, ("hcli:tasks", "del"): set(),
    ("hcli:mem:dead", "lrange"): {"owner"}, ("hcli:mem:dead", "lrem"): {"owner"}, ("hcli:mem:release", "hset"): {"dispatcher"},
}  # fmt: skip
WITHOUT_KEYS = {
    "bgrewriteaof": {"admin"}, "bgsave": {"admin"}, "slowlog|get": {"admin"}, "slowlog|reset": {"admin"}, "acl|log": {"admin"},
    "config|get": {"admin"}, "scan": {"night", "owner"},
    "config|set": set(), "config|rewrite": set(), "acl|setuser": set(), "acl|load": set(),
    "flushall": set(), "flushdb": set(), "keys": set(), "monitor": set(), "shutdown": set(), "replicaof": set(), "script|flush": set(),
    "script|kill": set(), "function|load": set(), "module|load": set(), "save": set(), "swapdb": set(), "select": set(), "publish": set(),
    "client|kill": set(), "client|list": set(), "randomkey": set(), "dbsize": set(), "debug": set(), "psync": set(), "failover": set(),
}  # fmt: skip


def test_what_matters_most_is_as_it_was_decided(tester: Redis) -> None:
    known = commands(tester)
    for (key, name), users in EXPECTED.items():
        call = [key if word == "K" else word for word in calls(name, known[name])[0]]
        answers = tried(tester, [(user.name, name, call) for user in every_user()])
        assert {user.name for user, answer in zip(every_user(), answers, strict=True) if answer} == users, (key, name)
    for name, users in WITHOUT_KEYS.items():
        answers = tried(tester, [(user.name, name, calls(name, known[name])[0]) for user in every_user()])
        assert {user.name for user, answer in zip(every_user(), answers, strict=True) if answer} == users, name


def test_the_administrator_has_no_key() -> None:
    (admin,) = [user for user in every_user() if user.name == "admin"]
    assert not admin.selectors


def test_the_file_is_what_the_table_makes() -> None:
    """docs/redis-keys.md is compared in tests/docs/test_documents.py."""
    made = runpy.run_path(str(REPOSITORY / "scripts" / "redis_users.py"))
    assert made["ACL"].read_text("utf-8") == made["acl"](), "run .venv/bin/python scripts/redis_users.py"


def test_every_key_has_a_user_and_every_right_a_key() -> None:
    named = {one for user in with_vectors() for right in user.rights for one in right.patterns} - {keys.ALL}
    assert named == {re.sub(r"\{.*", "*", key.pattern) for key in all_keys()}
