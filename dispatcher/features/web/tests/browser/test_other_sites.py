"""What another site that the owner's browser has open can do to the page, and what a link for a look can: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from playwright.sync_api import Page, expect

from dispatcher.features.web.tests.browser.conftest import Watched
from dispatcher.features.web.tests.browser.visits import of_chat
from dispatcher.features.web.tests.page_world import PageWorld
from tests.servers.loopback import Answering, Loopback
from tests.support.day.store_rows import keep


class OtherSite(Loopback):
    """Serves `content` at every path. On another port of 127.0.0.1: for a browser that is the same site, so the session's cookie is sent along,
    but another origin."""

    content = b""

    def __init__(self) -> None:
        class Handler(Answering, BaseHTTPRequestHandler):
            def do_GET(handler) -> None:  # noqa: N805
                handler._send_bytes(200, self.content, "text/html")

        super().__init__(Handler)


@pytest.fixture
def other() -> Iterator[OtherSite]:
    with OtherSite() as server:
        yield server


def token_of(page: Page) -> str:
    return page.locator("input[name=form-token]").first.get_attribute("value") or ""


def test_another_sites_form_changes_nothing_with_the_token(owner: Watched, site: PageWorld, other: OtherSite) -> None:
    keep(site.world, "The heron is grey", "foreign")
    page = owner.open(of_chat("/chat", "foreign"))
    fields = {"form-token": token_of(page), "chat": "foreign", "text": "The heron is pink"}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    other.content = f'<form method="post" action="{site.base}/chat/add">{inputs}<button>Win</button></form>'.encode()
    sent = []
    page.context.on("request", lambda request: sent.append(request.all_headers()) if request.method == "POST" else None)
    page.goto(other.url)
    with page.expect_navigation():
        page.get_by_role("button").click()
    expect(page.locator("body")).to_contain_text("comes from another site")
    assert sent[0]["cookie"].startswith("hmem-"), "the session's cookie was there"
    expect(owner.open(of_chat("/chat", "foreign")).locator(".memories")).not_to_contain_text("pink")


def test_another_site_can_neither_frame_nor_read_nor_load(owner: Watched, site: PageWorld, other: OtherSite) -> None:
    script = f'<script src="{site.base}/static/htmx.min.js"></script>'
    other.content = f'<iframe src="{site.base}/chats"></iframe>{script}'.encode()
    page = owner.page
    page.goto(other.url)
    page.wait_for_function("frames.length == 1")
    assert "hcli-memory" not in page.frames[1].content()
    read = "(path) => fetch(path, { credentials: 'include' }).then((answer) => answer.text()).catch((error) => 'refused: ' + error)"
    assert "refused" in page.evaluate(read, f"{site.base}/chats")
    said = " ".join(owner.wrong)
    assert "frame-ancestors" in said
    assert "ERR_BLOCKED_BY_RESPONSE" in said, "not even a script"


def test_after_leaving_the_back_button_shows_no_chat(owner: Watched, site: PageWorld) -> None:
    page = owner.open(of_chat("/chat/talk"))
    expect(page.locator("main")).to_contain_text("boiler")
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You are signed out").wait_for()
    page.go_back()
    expect(page.locator("main")).to_contain_text("This page is private")
    expect(page.locator("body")).not_to_contain_text("boiler")
