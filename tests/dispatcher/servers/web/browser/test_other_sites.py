"""What another site that the owner's browser has open can do to the page, and what a link for a look can: nothing."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from dispatcher.servers.web.pages import PAGES
from shared.turns.records import Turn
from tests.dispatcher.servers.web.browser.conftest import REBOUND, Enter, Watched
from tests.dispatcher.servers.web.browser.visits import of_chat
from tests.support.processes.memory_server import keep, of_today
from tests.support.processes.page_world import NOOR, ODD, PageWorld, page_over


class OtherSite(http.server.ThreadingHTTPServer):
    """Serves `content` at every path."""

    content = b""
    daemon_threads = True

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: OtherSite

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other() -> Iterator[OtherSite]:
    """On another port of 127.0.0.1: for a browser that is the same site, so the session's cookie is sent along, but another origin."""
    with OtherSite(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def token_of(page: Page) -> str:
    return page.locator("input[name=form-token]").first.get_attribute("value") or ""


def test_a_form_of_another_site_changes_nothing_even_with_the_token(
    owner: Watched, site: PageWorld, other: OtherSite
) -> None:
    keep(site.world, "The heron is grey", "foreign")
    page = owner.open(of_chat("/chat", "foreign"))
    fields = {"form-token": token_of(page), "chat": "foreign", "text": "The heron is pink"}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    other.content = f'<form method="post" action="{site.base}/chat/add">{inputs}<button>Win</button></form>'.encode()
    sent = []
    page.context.on("request", lambda request: sent.append(request.all_headers()) if request.method == "POST" else None)
    page.goto(other.base)
    with page.expect_navigation():
        page.get_by_role("button").click()
    expect(page.locator("body")).to_contain_text("comes from another site")
    assert sent[0]["cookie"].startswith("hmem-"), "the session's cookie was there"
    expect(owner.open(of_chat("/chat", "foreign")).locator(".memories")).not_to_contain_text("pink")


def test_another_site_can_neither_frame_nor_read_nor_load_anything(
    owner: Watched, site: PageWorld, other: OtherSite
) -> None:
    other.content = (
        f'<iframe src="{site.base}/chats"></iframe><script src="{site.base}/static/page.js"></script>'.encode()
    )
    page = owner.page
    page.goto(other.base)
    page.wait_for_function("frames.length == 1")
    assert "hcli-memory" not in page.frames[1].content()
    read = "(path) => fetch(path, { credentials: 'include' }).then((answer) => answer.text()).catch((error) => 'refused: ' + error)"
    assert "refused" in page.evaluate(read, f"{site.base}/chats")
    said = " ".join(owner.wrong)
    assert "frame-ancestors" in said
    assert "ERR_BLOCKED_BY_RESPONSE" in said, "not even a script"


def test_a_name_that_was_rebound_to_this_host_is_refused(owner: Watched, site: PageWorld) -> None:
    port = site.base.rpartition(":")[2]
    answer = owner.page.goto(f"http://{REBOUND}:{port}/chats")
    assert answer is not None
    assert answer.status == 403
    expect(owner.page.locator("body")).to_contain_text("does not answer under that name")
    answer = owner.page.goto(site.link.replace("127.0.0.1", REBOUND))
    assert answer is not None
    assert answer.status == 403, "not even with the token"


def test_after_leaving_the_back_button_shows_no_chat(owner: Watched, site: PageWorld) -> None:
    page = owner.open(of_chat("/chat/talk"))
    expect(page.locator("main")).to_contain_text("boiler")
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You have left").wait_for()
    page.go_back()
    expect(page.locator("main")).to_contain_text("This page is private")
    expect(page.locator("body")).not_to_contain_text("boiler")


def test_a_link_for_a_look_has_no_form_that_changes_anything(site: PageWorld, enter: Enter) -> None:
    watched = enter(site, site.look)
    for path in ("/nights", of_chat("/chat"), "/forget", "/import", of_chat("/chat/talk")):
        page = watched.open(path)
        forms = page.locator("form[method=post]:not([action='/leave'])")
        assert forms.count() == 0, path
        assert page.locator("input[name=form-token]").count() == 0, path
    mine = enter(site).open(of_chat("/chat"))
    for page_of in PAGES:
        if page_of.writes:
            form: dict[str, str | float | bool] = {
                "form-token": token_of(mine),
                "chat": NOOR,
                "number": "1",
                "text": "changed",
            }
            answer = watched.page.request.post(site.base + page_of.path, form=form, headers={"Origin": site.base})
            assert answer.status == 404, page_of.path
    expect(watched.open(of_chat("/chat")).locator(".memories").first).not_to_contain_text("changed")


def test_a_narrowed_page_shows_its_chats_alone(site: PageWorld, enter: Enter) -> None:
    of_today(site.world, Turn("na1", "user", "narrow", "The walrus is here.", time.time() - 60, "Eve"))
    with page_over(site.world, web_chats=f"narrow,{ODD}") as narrowed:
        watched = enter(narrowed)
        page = watched.open("/")
        assert page.url.endswith("/chats")
        expect(page.locator("tbody tr")).to_have_count(2)
        names = page.locator("nav[aria-label=Pages] a").all_inner_texts()
        assert names == ["Chats", "Forget"]
        expect(watched.open(of_chat("/chat/talk", "narrow")).locator("main")).to_contain_text("walrus")
        assert watched.faults() == []
        for path in ("/chat", "/chat/talk", "/chat/search", "/chat/why", "/chat/try", "/chat/export"):
            answer = watched.page.request.get(narrowed.base + of_chat(path, q="boiler", text="boiler"))
            assert (answer.status, "F28" in answer.text()) == (404, False), path
        for path in ("/nights", "/nights/1", "/import", "/settings"):
            assert watched.page.request.get(narrowed.base + path).status == 404, path
