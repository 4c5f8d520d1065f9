"""What an owner comes to do, from the first page to its effect."""

from __future__ import annotations

import json
import time
from contextlib import closing, nullcontext

import pytest
from playwright.sync_api import expect

from dispatcher.features.web.tests.browser.conftest import Watched
from dispatcher.features.web.tests.browser.test_actions import expect_done
from dispatcher.features.web.tests.browser.visits import fill, of_chat, submit
from dispatcher.features.web.tests.page_world import PageWorld
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import Memory, MemoryType
from shared.turns.records import Turn
from tests.support.day.store_rows import keep, of_today

ANSWER = "The plumber's list:\n\n```sh\nif leak:\n    close the valve\n```\n\n**Then** see [the manual](https://example.org/)."


def test_what_the_plumber_said_is_found_and_read(owner: Watched, site: PageWorld) -> None:
    chat = "77001"
    of_today(
        site.world, Turn("pl1", "user", chat, "The plumber said: never turn the blue tap.", time.time() - 60, "Ruth")
    )
    of_today(site.world, Turn("pl1", "asst", chat, ANSWER, time.time() - 50))
    page = owner.open("/")
    expect(page.locator(".chats li", has_text="Ruth")).to_contain_text("assistant: The plumber's list")
    with owner.task("find what the plumber said"):
        page.keyboard.press("/")
        page.keyboard.type("what did the plumbers say")
        page.keyboard.press("Enter")
        hit = page.locator(".hits li", has_text="Ruth")
        expect(hit.locator("mark", has_text="plumber")).to_be_visible()
        hit.get_by_role("link").click()
        said = page.locator("li[id='pl1:user']")
        expect(said).to_contain_text("never turn the blue tap")
    expect(said.get_by_text("pl1:user")).to_be_hidden()
    answer = page.locator("li[id='pl1:asst']")
    assert answer.locator("pre").inner_text() == "if leak:\n    close the valve\n"
    expect(answer.locator("strong", has_text="Then")).to_be_visible()
    expect(answer.get_by_role("link", name="the manual")).to_have_attribute("rel", "noreferrer noopener nofollow")
    expect(answer.get_by_role("button", name="Copy")).to_be_visible()
    assert owner.faults() == []


def test_a_fact_is_corrected_and_a_nights_change_taken_back_on_the_first_page(owner: Watched, site: PageWorld) -> None:
    pytest.importorskip("dispatcher.features.dream", reason="without the feature")  # it takes changes of nights back
    chat = "77002"
    of_today(site.world, Turn("gt1", "user", chat, "Hello.", time.time() - 60, "Eve"))
    keep(site.world, "The gate opens to the left", chat)
    with closing(DayMemory(site.world.settings(), nullcontext)) as day:
        old = day.memories.add(Memory(chat, MemoryType.FACT, "The cat is called Minka", time.time()))
        made = Memory(chat, MemoryType.FACT, "The cat is called Moritz", time.time(), session="night-3")
        new = day.memories.add(made)
        day.memories.supersede(chat, old.memory_id, new.memory_id, time.time())
    page = owner.open("/")
    with owner.task("correct a fact"):
        fact = page.locator("section", has_text="Learned since yesterday").locator("li", has_text="The gate opens")
        fact.locator("summary").click()
        fact.get_by_label("What is right").fill("The gate opens to the right")
        with page.expect_navigation():
            fact.get_by_role("button", name="Correct").click()
        expect(page.get_by_role("status")).to_be_visible()
    changed = page.locator("li", has_text="The gate opens to the right")
    expect(changed.locator("del")).to_have_text("The gate opens to the left")
    for path in ("/changes", of_chat("/chat", chat), "/"):  # it can be undone on each of them
        undo = owner.open(path).locator("li", has_text="Moritz").get_by_role("button", name="Undo").first
        expect(undo).to_be_visible()
    with owner.task("undo a night's change"):
        with page.expect_navigation():
            undo.click()
        expect(page.locator("main")).not_to_contain_text("Moritz")
    expect(owner.open(of_chat("/chat", chat)).locator("#m-2")).to_contain_text("The cat is called Minka")
    assert owner.faults() == []


@pytest.mark.slow
def test_a_file_is_imported_and_its_chat_erased(owner: Watched) -> None:
    chat = "77003"
    line = {
        "task_id": "o1",
        "role": "user",
        "chat_id": chat,
        "content": "An old heron.",
        "timestamp": 1.6e9,
        "name": "Ida",
    }
    with owner.task("import a file"):
        page = owner.open("/import")
        content = json.dumps(line).encode() + b"\n"
        page.get_by_label("A file").set_input_files({"name": "old.jsonl", "mimeType": "text/plain", "buffer": content})
        page.get_by_role("button", name="Upload").click()
        submit(page, "form[action='/import/plan']")
        expect(page.locator("pre")).to_contain_text(chat)
        submit(page, "form[action='/import/stage']")
        expect_done(page)
    expect(owner.open("/import").locator("tr", has_text="Ida")).to_contain_text("uploaded on this page")
    page = owner.open(of_chat("/chat", chat))
    expect(page.get_by_role("heading", name="Ida")).to_be_visible()
    with owner.task("erase a chat"):
        page.get_by_role("link", name="Forget …").click()
        submit(page, "form:has(input[value=chat])")
        expect(page.locator("main")).to_contain_text("An old heron.")
        fill(page, "to erase it permanently", "forget")
        submit(page, "form[action='/forget/carry-out']")
        expect_done(page)
    expect(owner.open("/search?q=heron").locator("main")).not_to_contain_text("An old heron")
    assert owner.faults() == []
