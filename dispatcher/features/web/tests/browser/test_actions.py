"""Each action through the real forms, to its effect; and by the keyboard alone."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, expect

from dispatcher.features.web.tests.browser.conftest import Enter, Watched
from dispatcher.features.web.tests.browser.visits import fill, of_chat, submit
from dispatcher.features.web.tests.page_world import PageWorld
from shared.turns.records import Turn
from tests.support.day.store_rows import keep, of_today

JOB_SECONDS = 600.0


def expect_done(page: Page) -> None:
    """Waits until the page shows by itself that its job has ended, and ended well."""
    expect(page.locator("#job .running")).to_have_count(0, timeout=JOB_SECONDS * 1000)
    expect(page.locator("#job")).to_contain_text("Done")


def unfold(page: Page, words: str) -> None:
    page.locator("summary", has_text=words).first.click()


def change(page: Page, number: int, button: str) -> None:
    """A button of a memory's own forms."""
    unfold(page, f"Change number {number}")
    with page.expect_navigation():
        page.locator(".memories li", has_text=f"number {number}").get_by_role("button", name=button).click()


def test_memories_are_added_corrected_completed_and_forgotten(owner: Watched, site: PageWorld) -> None:
    chat = "typed <chat>"
    of_today(site.world, Turn("ty1", "user", chat, "Hello.", time.time() - 60, "Eve"))
    page = owner.open(of_chat("/chat", chat))
    unfold(page, "Add one")
    fill(page, "What to remember", "The roof was repaired in May")
    submit(page, "form[action='/chat/add']")
    expect(page.get_by_role("status")).to_contain_text("Saved as number 1")
    unfold(page, "Add one")
    fill(page, "What to remember", "Paint the fence")
    page.get_by_label("What it is").select_option("goal")
    fill(page, "Deadline of a goal", "2030-01-05")
    submit(page, "form[action='/chat/add']")
    expect(page.locator(".memories li").first).to_contain_text("5 January 2030")
    unfold(page, "Change number 1")
    fill(page, "What is right instead of number 1", "The roof was repaired in June")
    submit(page, ".memories li:has-text('number 1') form[action='/chat/correct']")
    expect(page.locator("#m-3 .replaced")).to_contain_text("instead of The roof was repaired in May")
    change(page, 2, "Done")
    expect(page.locator("#m-2")).to_contain_text("done")
    change(page, 3, "Forget number 3")
    expect(page.locator("main")).not_to_contain_text("June")
    page.reload()
    expect(page.locator("main")).not_to_contain_text("June")
    assert owner.faults() == []


def tab_to(page: Page, words: str, most: int = 60) -> None:
    """Press Tab until the focus is on an element with these words; each that has it must be seen to have it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        style = page.evaluate(
            """() => { const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
            return { words: (one.innerText || one.labels?.[0]?.innerText || one.ariaLabel || "").trim(), outline: style.outlineStyle,
                     width: parseFloat(style.outlineWidth), area: box.width * box.height, at: box.left }; }"""
        )
        assert style["outline"] != "none" and style["width"] >= 2 and style["area"] > 0 and style["at"] >= 0, style
        if words == style["words"]:
            return
    raise AssertionError(f"{words} is not reached by {most} times Tab")


def test_by_the_keyboard_alone_a_fact_is_added(site: PageWorld, enter: Enter) -> None:
    keep(site.world, "The piano was tuned", "keyboard")
    page = enter(site).page
    page.goto(site.link)
    page.wait_for_url(f"{site.base}/")  # without the token
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.goto(f"{site.base}/")
    tab_to(page, "Chats")
    page.keyboard.press("Enter")
    page.wait_for_url("**/chats")
    tab_to(page, "Noor")
    page.keyboard.press("Enter")
    page.wait_for_url("**/chat?chat=*")
    tab_to(page, "Add one")
    page.keyboard.press("Enter")
    tab_to(page, "What to remember")
    page.keyboard.type("The blue bicycle is in the cellar")
    tab_to(page, "Add")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Saved as number")
    expect(page.locator(".memories").first).to_contain_text("The blue bicycle is in the cellar")


@pytest.mark.slow
def test_a_night_and_a_forgetting_are_shown(owner: Watched, site: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = site.world.root / "gate"
    monkeypatch.setenv("RESTART_COMMAND", f"sh -c 'while [ ! -e {gate} ]; do sleep 0.1; done'")
    of_today(site.world, Turn("bs1", "user", "beside", "A heron stood here.", time.time() - 60, "Eve"))
    of_today(site.world, Turn("bs2", "user", "beside", "This one stays.", time.time() - 50, "Eve"))
    site.world.say("new1", "Something new was said.", timestamp=time.time() - 30)
    page = owner.open("/nights")
    unfold(page, "Run a night now")
    submit(page, "form[action='/nights/run']")
    expect(page.get_by_role("progressbar")).to_be_visible()
    night = page.url
    expect(page.locator("#job pre")).to_contain_text("publish", timeout=JOB_SECONDS * 1000)
    page.reload()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page = owner.open("/forget")
    fill(page, "Messages and facts that contain", "heron")
    submit(page, "form:has(input[value=matching])")
    expect(page.locator("p.problem")).to_contain_text("1 message of")
    expect(page.locator("main")).to_contain_text("A heron stood here.")
    fill(page, "to erase it permanently", "forget")
    submit(page, "form[action='/forget/carry-out']")
    forgetting = page.url
    searched = of_chat("/chat/search", q="boiler")
    for path in ("/", "/operations", "/nights", "/chats", of_chat("/chat"), of_chat("/chat/talk"), searched, "/forget"):
        answer = page.goto(site.base + path)
        assert answer is not None
        assert answer.status == 200, path
    assert "boiler" in owner.open(searched).inner_text("main")
    page = owner.open("/nights")
    expect(page.locator(".note")).to_contain_text("A night runs now")
    assert page.get_by_role("button", name="Run the night").count() == 0, "not two at once"
    gate.touch()
    for job in (night, forgetting):
        page.goto(job)
        expect_done(page)
    assert site.world.redis.exists("hcli:memory:new1:user") == 0
    talk = owner.open(of_chat("/chat/talk", "beside")).locator("main")
    expect(talk).not_to_contain_text("heron")
    expect(talk).to_contain_text("This one stays.")
    assert owner.faults() == []
