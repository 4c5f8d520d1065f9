"""The page's own password: who gets in, who waits, and which sessions last."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import stat
import tomllib
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import httpx
import pytest
from starlette.requests import Request

from dispatcher.features.web.requests.access import LONGEST_SECONDS, SESSIONS, UNUSED_SECONDS, Grant, PageSessions
from dispatcher.features.web.requests.password import (
    ALL_WAITING,
    AT_ONCE,
    LONGEST_DELAY,
    MOST_CHARACTERS,
    WAITING,
    PasswordTries,
    TooManyTries,
    hashed,
    is_right,
    source_of,
)
from dispatcher.features.web.service import set_password
from dispatcher.features.web.tests.conftest import Site, serving
from shared.config.settings import settings_from
from shared.errors import InvalidInput, SettingsError
from tests.support.machine import wait_for
from tests.support.world import World

PASSWORD, OTHER = "correct horse battery", "another horse battery"
HASH = hashed(PASSWORD)
BEHIND: dict[str, Any] = {"web_origin": "https://memory.example.org", "web_proxy": "127.0.0.1"}

FULL_DISK = patch("dispatcher.features.web.requests.access.write_atomic", side_effect=OSError(errno.ENOSPC, "full"))


def tried(site: Site, password: str, source: str | None = None) -> httpx.Response:
    """From another address, as our proxy says it."""
    headers = {"Host": "memory.example.org", "X-Forwarded-For": f"192.0.2.1, {source}"} if source else {}
    return site.client().post("/enter", data={"password": password}, headers=headers)


def test_the_password_opens_what_the_first_link_opens_and_no_script_or_other_site_has_the_session(
    talked: World,
) -> None:
    with serving(talked, web_password=HASH) as site:
        door = site.client().get("/chats")
        assert (door.status_code, 'name="password"' in door.text) == (401, True)
        for wrong in ("", HASH, PASSWORD + " "):
            assert tried(site, wrong).status_code == 401
        answer = tried(site, PASSWORD)
        cookie = answer.headers["set-cookie"].lower()
        assert (answer.status_code, "httponly" in cookie, "samesite=strict" in cookie) == (200, True, True)
        visitor = site.client()
        visitor.cookies.update(answer.cookies)
        assert visitor.get("/operations").status_code == 200
        other = {"Origin": "https://evil.example"}
        assert site.client().post("/enter", data={"password": PASSWORD}, headers=other).status_code == 403


def test_without_a_password_there_is_no_form_for_it_and_nothing_to_guess(site: Site) -> None:
    assert 'name="password"' not in site.client().get("/").text
    assert tried(site, PASSWORD).status_code == 401


@pytest.fixture
def no_hashing() -> Iterator[None]:
    """Where it counts who waits for whom."""
    with patch("dispatcher.features.web.requests.password.is_right", lambda _, password: password == PASSWORD):
        yield


@pytest.mark.usefixtures("no_hashing")
def test_wrong_tries_of_somebody_else_neither_delay_the_owner_nor_lock_them_out(talked: World) -> None:
    with serving(talked, web_password=HASH, **BEHIND) as site, ThreadPoolExecutor(12) as strangers:
        flood = [strangers.submit(tried, site, "wrong", "198.51.100.7") for _ in range(12)]
        wait_for(lambda: any(one.done() for one in flood), "the first answer to the stranger")
        assert tried(site, PASSWORD, "203.0.113.9").status_code == 200
        assert not all(one.done() for one in flood), "the owner does not wait for the stranger's tries"
        seen = {"Host": "memory.example.org", "X-Forwarded-For": "198.51.100.7"}
        token = site.prepared.served.access.tokens[0][0]
        assert site.client().get("/enter", params={"token": token}, headers=seen).status_code == 200, "links never wait"
        assert {one.result().status_code for one in flood} == {401, 429}


@pytest.mark.usefixtures("no_hashing")
def test_each_wrong_try_of_an_address_makes_its_next_one_wait_longer() -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async def try_all() -> None:
        tries = PasswordTries(HASH, pause)
        for _ in range(8):
            assert not await tries.is_right("wrong", "192.0.2.1")
        assert await tries.is_right(PASSWORD, "192.0.2.2")
        assert await tries.is_right(PASSWORD, "192.0.2.1")
        assert await tries.is_right(PASSWORD, "192.0.2.1")

    asyncio.run(try_all())
    assert waits == [0.5, 1, 2, 4, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]


@pytest.mark.usefixtures("no_hashing")
def test_an_address_has_few_tries_at_once() -> None:
    async def flood() -> list[object]:
        tries = PasswordTries(HASH, lambda _: asyncio.sleep(0))
        return await asyncio.gather(*(tries.is_right("x", "192.0.2.1") for _ in range(30)), return_exceptions=True)

    found = asyncio.run(flood())
    assert found.count(False) == WAITING
    assert sum(isinstance(one, TooManyTries) for one in found) == 30 - WAITING


@pytest.mark.usefixtures("no_hashing")
def test_many_addresses_fill_a_short_queue_and_are_sent_away_at_once() -> None:
    async def flood() -> tuple[list[bool | BaseException], bool]:
        tries = PasswordTries(HASH)
        found = await asyncio.gather(
            *(tries.is_right("x", f"192.0.2.{one}") for one in range(60)), return_exceptions=True
        )
        return found, await tries.is_right(PASSWORD, "203.0.113.9")

    found, right_afterwards = asyncio.run(flood())
    assert (found.count(False), right_afterwards) == (AT_ONCE + ALL_WAITING, True)
    assert sum(isinstance(one, TooManyTries) for one in found) == 60 - AT_ONCE - ALL_WAITING


@pytest.mark.parametrize(
    ("lines", "source"),
    [
        (["192.0.2.1"], "192.0.2.1"),
        (["203.0.113.1, 192.0.2.1"], "192.0.2.1"),
        (["203.0.113.1", "192.0.2.1"], "192.0.2.1"),
        (["2001:db8:0:1::5"], "2001:db8::/48"),
        (["2001:db8:0:ffff::5"], "2001:db8::/48"),
        ([], "127.0.0.1"),
    ],
)
def test_who_tries_is_whom_the_proxy_names_last(lines: list[str], source: str) -> None:
    headers = [(b"x-forwarded-for", line.encode()) for line in lines]
    asked = Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 1)})
    assert source_of(asked, behind_proxy=True) == source
    assert source_of(asked, behind_proxy=False) == "127.0.0.1"


def test_sessions_of_the_password_outlive_the_page_and_end_with_it(talked: World) -> None:
    with serving(talked, web_password=HASH) as site:
        port = site.base.rpartition(":")[2]
        cookies = tried(site, PASSWORD).cookies
        by_link = site.visitor().client.cookies
        first = site.client()
        first.cookies.update(cookies)
        form = re.findall('name="form-token" value="([^"]+)"', first.get("/chat", params={"chat": "9912"}).text)[0]
    files = list(talked.settings().hmem_state_dir.glob("web-sessions-*.json"))
    assert [stat.S_IMODE(one.stat().st_mode) for one in files] == [0o600]
    assert not any(value in files[0].read_text() for value in cookies.values()), "no session can be taken from the file"
    assert files[0].name == f"web-sessions-{port}.json"
    for hash_of_it, status in ((HASH, 200), (hashed(OTHER), 401)):
        with serving(talked, port=int(port), web_password=hash_of_it) as site:
            again, link = site.client(), site.client()
            again.cookies.update(cookies)
            link.cookies.update(by_link)
            assert again.get("/chats").status_code == status
            assert link.get("/chats").status_code == 401, "one of a link ends with the page"
            if status == 200:
                fact = {"form-token": form, "chat": "9912", "text": "The valve is blue"}
                assert again.post("/chat/add", data=fact).status_code == 303, "a form that was open goes on"
                left = site.client()
                left.cookies.update(tried(site, PASSWORD).cookies)
                with FULL_DISK:
                    full = left.post("/leave")
                assert (
                    full.status_code,
                    "Make room" in full.text,
                    "max-age=0" in full.headers["set-cookie"].lower(),
                ) == (503, True, True)
                assert left.get("/chats").status_code == 401


def test_kept_sessions_end_without_use_after_a_month_and_when_they_are_many(tmp_path: Path) -> None:
    clock, file = [1_000_000.0], tmp_path / "sessions"

    def kept() -> PageSessions:
        return PageSessions(HASH, Grant(), UNUSED_SECONDS, file, lambda: clock[0])

    name = kept().begin()
    clock[0] += UNUSED_SECONDS + 1
    assert kept().session(name) is None
    name = kept().begin()
    for _ in range(int(LONGEST_SECONDS // (UNUSED_SECONDS / 2))):
        assert kept().session(name)
        clock[0] += UNUSED_SECONDS / 2
    clock[0] += UNUSED_SECONDS / 2
    assert kept().session(name) is None, "it was used all the time"
    names = []
    for _ in range(SESSIONS + 1):
        clock[0] += 1
        names.append(kept().begin())
    assert kept().session(names[0]) is None
    assert kept().session(names[-1])
    kept().leave(names[-1])
    assert kept().session(names[-1]) is None
    running, left = kept(), names[-2]
    with FULL_DISK:
        assert not running.leave(left), "a restart would open it again"
    assert running.session(left) is None
    running.begin()
    assert kept().session(left) is None


#: A number that no float holds, and JSON that is too deep.
BROKEN = [pytest.param(f'{{"x": 1{"0" * 400}}}', id="number"), pytest.param("[" * 200_000, id="deep")]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": null}', '{"x": 1e999}', *BROKEN])
def test_a_file_of_sessions_that_somebody_else_wrote_opens_nothing(tmp_path: Path, content: str) -> None:
    file = tmp_path / "sessions"
    file.write_text(content)
    kept = PageSessions(HASH, Grant(), UNUSED_SECONDS, file)
    for name in ("", "x", "0.x", "é", "ffffffff.x" * 100):
        assert kept.session(name) is None
    assert kept.session(kept.begin())
    for mark in list(json.loads(file.read_text())):
        assert kept.session(mark) is None


def test_a_password_is_hashed_long_enough_and_the_same_however_it_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HASH.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert is_right(hashed("cafe\u0301 cafe\u0301 cafe\u0301"), "caf\u00e9 caf\u00e9 caf\u00e9")
    with pytest.raises(InvalidInput, match="at least 12"):
        hashed("short")
    long = "a" + "\u0301" * 60_000 + "\u0316" * 60_000
    with monkeypatch.context() as composing:  # its accents would take seconds
        composing.setattr(unicodedata, "normalize", lambda *_: pytest.fail("a long one was composed"))
        assert not is_right(HASH, long)
        with pytest.raises(InvalidInput, match="at most 1000"):
            hashed(long[: MOST_CHARACTERS + 1])
    with pytest.raises(SettingsError, match=r"WEB_PASSWORD: only the hash") as refused:
        settings_from({"web_password": "my real password"})
    assert "my real" not in str(refused.value)


def test_the_password_is_asked_twice_unseen_and_its_hash_is_the_owners_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, prompt = tmp_path / "own.toml", Mock(return_value=PASSWORD)
    monkeypatch.setenv("HMEM_CREDENTIALS", str(file))
    monkeypatch.setattr("typer.prompt", prompt)
    file.write_text("# mine\n")
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="Others may read"):
        set_password()
    file.chmod(0o600)
    with pytest.raises(InvalidInput, match="asks on a terminal"):
        set_password()
    monkeypatch.setattr("sys.stdin", Mock())  # a terminal
    set_password()
    prompt.assert_called_once_with("New password", hide_input=True, confirmation_prompt="The same again")
    written = file.read_text()
    assert written.startswith("# mine\n")
    assert is_right(tomllib.loads(written)["WEB_PASSWORD"], PASSWORD)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    prompt.return_value = "short"
    with pytest.raises(InvalidInput, match="at least 12"):
        set_password()
    assert file.read_text() == written
