"""The owner's page over a real socket, and a client that has entered."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from dispatcher.features.web.tests.page_world import PageWorld, page_over
from shared.turns.records import Turn
from tests.support.day.store_rows import MAY, keep, of_today
from tests.support.world import Live, World

FORM_TOKEN = re.compile(r'name="form-token" value="([^"]+)"')


@dataclass
class Visitor:
    """A browser without JavaScript: it keeps cookies, follows redirects, and sends forms with their token."""

    client: httpx.Client
    token: str = field(default="")

    def get(self, path: str, status: int = 200, /, **query: str) -> str:
        answer = self.client.get(path, params=query or None)
        assert answer.status_code == status, answer.text
        if found := FORM_TOKEN.search(answer.text):
            self.token = found[1]
        return answer.text

    def post(self, path: str, status: int = 200, /, **form: str) -> str:
        answer = self.client.post(path, data={"form-token": self.token, **form})
        assert answer.status_code == status, answer.text
        return answer.text


@dataclass(frozen=True)
class Site(PageWorld):
    """With the clients that visit it."""

    clients: list[httpx.Client] = field(default_factory=list)

    def client(self) -> httpx.Client:
        self.clients.append(httpx.Client(base_url=self.base, timeout=120))
        return self.clients[-1]

    def visitor(self, link: int | None = 0) -> Visitor:
        """`link`: which of the printed links it has opened, None for none."""
        client = self.client()
        client.follow_redirects = True
        if link is not None:
            assert client.get(self.prepared.links[link]).status_code == 200
        return Visitor(client)


@contextmanager
def serving(world: World, chats: str = "", port: int = 0, **settings: Any) -> Iterator[Site]:
    """The page in this process, and its clients."""
    with page_over(world, chats, port, **settings) as page:
        site = Site(**vars(page))
        try:
            yield site
        finally:
            for client in site.clients:
                client.close()


@pytest.fixture
def talked(begun: Callable[[Live], World]) -> World:
    """Two nights' releases, a turn of today and a fact in chat 9912; one turn in a chat of an odd id."""
    return begun(_talk)


def _talk(light: World) -> None:
    light.say("t1", "What is the code of the boiler?", name="Anna", timestamp=MAY)
    light.say("t1", "The boiler code is 4711.", role="asst", timestamp=MAY + 60)
    light.say("odd", "the canary <b>sings</b>", chat_id="a/b?c&<i>", timestamp=MAY)
    light.night()
    light.say("t2", "The boiler hums again.", name="Anna", timestamp=MAY + 90_000)
    light.night()
    of_today(light, Turn("t3", "user", "9912", "The boiler was repaired by Mr Ott.", time.time() - 60, "Anna"))
    keep(light, "The boiler is a Vaillant")


@pytest.fixture
def site(talked: World) -> Iterator[Site]:
    with serving(talked) as made:
        yield made
