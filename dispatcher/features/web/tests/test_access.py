"""Who may see the page, and what every answer carries."""

from __future__ import annotations

import hashlib
import re

import pytest

from dispatcher.features.web.pages import PAGES
from dispatcher.features.web.render import STATIC
from dispatcher.features.web.requests.access import LINK_UNUSED_SECONDS, SESSIONS, Access, Grant
from dispatcher.features.web.requests.guard import BODY_BYTES, HEADERS
from dispatcher.features.web.serve import prepare
from dispatcher.features.web.tests.conftest import Site, serving
from scripts.releasing.sbom import shipped_scripts
from shared.errors import SettingsError
from tests.support.machine import free_port
from tests.support.world import REPOSITORY, World


def test_without_a_token_nothing_is_shown(site: Site) -> None:
    visitor = site.visitor(None)
    for page in PAGES:
        path = page.path.replace("{run}", "1").replace("{job}", "x")
        answer = visitor.client.request("POST" if page.writes else "GET", path, params={"chat": "9912"})
        assert answer.status_code == 401, path
        assert "boiler" not in answer.text
    assert visitor.client.get("/enter", params={"token": "guessed"}).status_code == 401


def test_the_link_becomes_a_session_that_scripts_and_other_sites_cannot_use(site: Site) -> None:
    answer = site.client().get(site.prepared.links[0])
    assert answer.status_code == 200
    assert 'content="0; url=/"' in answer.text, "a redirect would get no strict cookie"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert site.prepared.served.access.tokens[0][0] not in cookie


def test_wrong_tokens_from_elsewhere_do_not_lock_the_owner_out(site: Site) -> None:
    stranger = site.visitor(None)
    for _ in range(20):
        headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert stranger.client.get("/enter", params={"token": "wrong"}, headers=headers).status_code in (401, 403)
    site.visitor()


def test_leaving_ends_the_session(site: Site) -> None:
    visitor = site.visitor()
    visitor.get("/chats")
    again = site.client()
    again.cookies.update(visitor.client.cookies)
    assert again.get("/chats").status_code == 200
    visitor.client.post("/leave")
    assert again.get("/chats").status_code == 401, "not only the cookie is gone"


def test_every_answer_has_the_headers(site: Site) -> None:
    visitor = site.visitor()
    for path, status in (("/", 200), ("/nope", 404), ("/static/page.css", 200), ("/enter", 401), ("/nights/99", 404)):
        answer = visitor.client.get(path)
        assert answer.status_code == status, path
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
        assert ("no-store" in answer.headers.get("cache-control", "")) is not path.startswith("/static/")
        assert "unsafe" not in answer.headers["content-security-policy"]
    assert "server" not in answer.headers


def test_another_host_is_refused(site: Site) -> None:
    """DNS rebinding, even with the token."""
    visitor = site.visitor()
    for host in ("evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""):
        for path in ("/chats", site.prepared.links[0]):
            answer = visitor.client.get(path, headers={"Host": host})
            assert answer.status_code == 403, host
            assert "boiler" not in answer.text


def test_another_origin_changes_nothing(site: Site) -> None:
    visitor = site.visitor()
    page = visitor.get("/chat", chat="9912")
    form = {"form-token": visitor.token, "chat": "9912", "number": "1"}
    assert "Vaillant" in page
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"):
        assert visitor.client.post("/chat/forget", data=form, headers={"Origin": origin}).status_code == 403, origin
    assert "Vaillant" in visitor.get("/chat", chat="9912")


def test_a_form_without_the_token_of_its_session_changes_nothing(site: Site) -> None:
    visitor, other = site.visitor(), site.visitor()
    visitor.get("/chat", chat="9912")
    for token in ("", "x", visitor.token):
        answer = other.client.post("/chat/forget", data={"form-token": token, "chat": "9912", "number": "1"})
        assert answer.status_code == 400
        assert "Load the page again" in answer.text
    assert "Vaillant" in visitor.get("/chat", chat="9912")


def test_a_large_body_is_not_read(site: Site) -> None:
    visitor = site.visitor()
    assert visitor.client.post("/chat/add", data={"text": "x" * BODY_BYTES}).status_code == 413
    assert visitor.client.post("/chat/add", content=(b"x" for _ in range(3))).status_code == 413, "of unknown size"


def test_a_link_for_a_look_changes_nothing(site: Site) -> None:
    visitor = site.visitor(1)
    for path in ("/nights", "/chat", "/chat/talk", "/forget", "/import"):
        page_text = visitor.get(path, chat="9912")
        assert set(re.findall('<form method="post" action="([^"]+)"', page_text)) <= {"/leave"}, path
        assert "form-token" not in page_text, path
    for page in PAGES:
        if page.writes:
            answer = visitor.client.post(page.path, data={"chat": "9912", "number": "1"})
            assert answer.status_code == 404, page.path
    assert "Vaillant" in visitor.get("/chat", chat="9912")


def test_a_narrowed_page_shows_its_chats_only(talked: World) -> None:
    with serving(talked, chats="9912") as site:
        visitor = site.visitor()
        for path in ("/", "/chats"):
            assert "a/b" not in visitor.get(path)
            assert "canary" not in visitor.get(path)
        assert "Vaillant" in visitor.get("/chat", chat="9912")
        for path in ("/chat", "/chat/talk", "/chat/search", "/chat/why", "/chat/try", "/chat/export"):
            assert "canary" not in visitor.get(path, 404, chat="a/b?c&<i>", q="canary", text="canary")
        for path in ("/operations", "/nights", "/nights/1", "/import", "/settings"):
            visitor.get(path, 404)
        visitor.post("/forget/preview", 404, what="chat", chat="a/b?c&<i>")
        assert "canary" not in visitor.post("/forget/preview", 400, what="matching", text="canary", chat="")


@pytest.mark.parametrize(("given", "said"), [
    ({"listen": "0.0.0.0:0"}, "0.0.0.0 can be reached from other hosts"),
    ({"web_origin": "https://memory.example.org"}, "belong together"),
    ({"web_proxy": "127.0.0.1"}, "belong together"),
    ({"web_origin": "http://memory.example.org", "web_proxy": "127.0.0.1"}, "has to begin with https"),
])  # fmt: skip
def test_an_address_that_others_could_read_is_refused(light: World, given: dict[str, str], said: str) -> None:
    listen = given.pop("listen", "127.0.0.1:0").replace(":0", f":{free_port()}")
    with pytest.raises(SettingsError, match=re.escape(said)):
        prepare(light.settings(**given), listen)


def test_behind_a_proxy_its_name_is_ours_the_cookie_needs_tls_and_nobody_else_may_ask(talked: World) -> None:
    with serving(talked, web_origin="https://memory.example.org", web_proxy="127.0.0.1") as site:
        assert site.prepared.links[0].startswith("https://memory.example.org/enter?token=")
        token = site.prepared.served.access.tokens[0][0]
        seen = {"Host": "memory.example.org", "X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}
        answer = site.client().get(f"{site.base}/enter", params={"token": token}, headers=seen)
        assert answer.status_code == 200
        assert answer.headers["set-cookie"].startswith("__Host-hmem-")
        assert "secure" in answer.headers["set-cookie"].lower()
    with serving(talked, web_origin="https://memory.example.org", web_proxy="192.0.2.7") as site:
        token, seen["X-Forwarded-For"] = site.prepared.served.access.tokens[0][0], "192.0.2.7"
        answer = site.client().get("/enter", params={"token": token}, headers=seen)
        assert answer.status_code == 403, "whoever comes past the proxy"


def test_static_files_are_those_of_their_packages() -> None:
    stated = dict(re.findall(r"\| `([^`]+)` \|.*`([0-9a-f]{64})`", (STATIC / "SOURCES.md").read_text(encoding="utf-8")))
    assert {name: hashlib.sha256((STATIC / name).read_bytes()).hexdigest() for name in stated} == stated
    named = {one["bom-ref"].rpartition("/")[2]: one["purl"] for one in shipped_scripts(REPOSITORY)}
    assert named.keys() == stated.keys() == {"htmx.min.js"}
    assert named["htmx.min.js"] == "pkg:npm/htmx.org@2.0.11"


def test_many_visits_by_one_link_do_not_end_the_session_of_another_which_ends_unused() -> None:
    clock = [0.0]
    access = Access([Grant(), Grant(read_only=True)], now=lambda: clock[0])
    (own, _), (look, _) = access.tokens
    name = access.enter(own) or ""
    for _ in range(SESSIONS + 1):
        access.enter(look)
    assert access.session(name)
    clock[0] += LINK_UNUSED_SECONDS + 1
    assert access.session(name) is None
