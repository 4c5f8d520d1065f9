"""Nothing that somebody wrote runs in the page, breaks out of its place, or hides the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from dispatcher.features.web.tests.browser.conftest import Enter, Watched
from dispatcher.features.web.tests.browser.hostile import ATTRIBUTE, BINDING, FIELDS, PAYLOADS, chat_of, mark, text
from dispatcher.features.web.tests.browser.visits import fill, of_chat, submit, upload
from dispatcher.features.web.tests.page_world import PageWorld

#: What a text may not have made: elements of its own, handlers, frames, and scripts that are not ours.
BROKEN_OUT = f"""() => [...document.querySelectorAll(`[{ATTRIBUTE}], [onload], [onerror], [onfocus], [onmouseover], iframe, object, base,
  body img, body svg:not([role='img']), body style, body link, body meta,
  script:not([src^='/static/']), a[href^='javascript' i], [hx-on\\\\:load], [autofocus]`)]
  .map((one) => one.outerHTML.slice(0, 200))"""
#: Everything that a person, or a screen reader, gets: texts, and what is in fields and names.
ALL_TEXT = """() => [document.title, document.body.innerText, document.body.textContent,
  ...[...document.querySelectorAll("input, textarea")].map((one) => one.value),
  ...[...document.querySelectorAll("[aria-label]")].map((one) => one.ariaLabel)].join("\\n")"""
PLACE = "(one) => one.getBoundingClientRect().toJSON()"
MARK = re.compile(r"zq[a-z]+zz[a-z]+qz")
#: Fields of an address, by the page that shows what is in them.
ADDRESSED: dict[str, Callable[[str, str], str]] = {
    "sought": lambda said, chat: of_chat("/chat/search", chat, q=said),
    "everywhere": lambda said, chat: f"/search?{of_chat('', chat, q=said).lstrip('?')}",
    "found": lambda said, chat: f"/chats?{of_chat('', chat, q=said).lstrip('?')}",
    "tried": lambda said, chat: of_chat("/chat/try", chat, text=said[:3900]),
    "backend": lambda said, chat: of_chat("/chat/try", chat, text="x", backend=said),
    "turn": lambda said, chat: of_chat("/forget", chat, turn=said),
}


class Attacked:
    """Opens pages in one browser profile, looks at each, and remembers which marks were seen."""

    def __init__(self, watched: Watched) -> None:
        self.watched, self.seen, self.called = watched, set[str](), list[object]()
        watched.page.expose_function(BINDING, lambda *given: self.called.append(given))

    def look(self, path: str) -> str:
        page = self.watched.open(path)
        return self.check(page.url)

    def check(self, where: str) -> str:
        page = self.watched.page
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate(BROKEN_OUT) == [], where
        shown: str = page.evaluate(ALL_TEXT)
        self.seen |= set(MARK.findall(shown))
        assert page.locator("h1").is_visible(), f"{where}: the page is still there"
        return shown

    def quiet(self) -> None:
        """Nothing ran. (An answer of 400 and 404 is an error in the browser's console.)"""
        wrong = [one for one in self.watched.faults() if not re.search(r"status of 40[04]", one)]
        assert (wrong, self.called) == ([], [])


@pytest.fixture
def attack(attacked: PageWorld, enter: Enter) -> Iterator[Attacked]:
    made = Attacked(enter(attacked))
    yield made
    made.quiet()


def test_the_look_notices_what_broke_out(attacked: PageWorld, enter: Enter) -> None:
    attack = Attacked(enter(attacked))
    page = attack.watched.open("/chats")
    for payload in ("image", "svg", "double", "link", "closing", "htmx", "form"):
        before = len(page.evaluate(BROKEN_OUT))
        for html in (PAYLOADS[payload], f'<p title="{PAYLOADS[payload]}">'):
            page.evaluate("(html) => document.querySelector('main').insertAdjacentHTML('beforeend', html)", html)
        assert len(page.evaluate(BROKEN_OUT)) > before, payload
    page.evaluate(f"{BINDING}(7)")
    assert attack.called == [(7,)], "a payload could call it; the policy stops even those that broke out"
    assert any(one.startswith("policy: script-src-attr") for one in attack.watched.faults())


@pytest.mark.slow
def test_nothing_that_was_written_runs_or_breaks_out(attack: Attacked) -> None:
    refused = set()
    for payload in PAYLOADS:
        chat = chat_of(payload)
        for path in ("/chat", "/chat/talk", "/chat/why"):
            attack.look(of_chat(path, chat))
        for word in ("message", "fact"):
            attack.look(of_chat("/chat/search", chat, q=mark(word, payload)))
        for field, address in ADDRESSED.items():
            shown = attack.look(address(text(field, payload).encode("utf-8", "replace").decode(), chat))
            refused |= {mark(field, payload)} if "holds a NUL, which is no text" in shown else set()
    for path in ("/", "/operations", "/nights", "/nights/1", "/nights/2", "/chats", "/forget", "/settings"):
        attack.look(path)
    assert refused == {mark(field, "nul") for field in ADDRESSED}
    fields = (*FIELDS, *ADDRESSED, "chat", "worker")
    wanted = {mark(field, payload) for field in fields for payload in PAYLOADS}
    missing = wanted - attack.seen - refused
    assert not missing
    assert len(wanted & attack.seen) >= 200


@pytest.mark.slow
def test_what_forms_bring_in_forget_and_import_is_shown_as_it_was_written(attack: Attacked) -> None:
    for payload in PAYLOADS:
        page = attack.watched.open(of_chat("/chat", f"form-{payload}"))
        page.locator("summary", has_text="Add one").click()
        page.locator("#new-text").evaluate("(one) => one.removeAttribute('maxlength')")
        page.locator("#new-text").fill(text("form", payload).encode("utf-8", "replace").decode()[:3000])
        submit(page, "form[action='/chat/add']")
        shown = attack.check(page.url)
        assert mark("form", payload) in shown or "holds a NUL" in shown, payload
    page = attack.watched.open("/forget")
    fill(page, "Messages and facts that contain", "zqmessagezz")
    submit(page, "form:has(input[value=matching])")
    assert PAYLOADS["image"] in attack.check("/forget/preview")
    base = {"role": "user", "timestamp": 1.6e9}
    turns = [
        base | {"task_id": f"i{number}", "chat_id": chat_of(name), "content": payload, "name": payload}
        for number, (name, payload) in enumerate(PAYLOADS.items())
    ]
    lines = "".join(json.dumps(turn) + "\n" for turn in turns) + f'{{"task_id": "{PAYLOADS["svg"]}\n'
    page = upload(attack.watched, lines.encode())
    page.get_by_label("What it is").select_option("jsonl")
    submit(page, "form[action='/import/plan']")
    attack.check("/import/plan")


def test_a_template_is_text_and_a_name_ends_where_it_ends(attack: Attacked) -> None:
    assert text("message", "template") in attack.look(of_chat("/chat/talk", chat_of("template")))
    chat = chat_of("direction")
    for path, line in (("/chat/talk", ".question .who"), ("/chat/why", ".hits .who")):
        attack.look(of_chat(path, chat))
        found = attack.watched.page.locator(line).first
        name, moment = (found.locator(tag).first.evaluate(PLACE) for tag in ("strong", "time"))
        assert moment["x"] >= name["right"], f"{path}: a name that turns the writing direction turns nothing after it"
    attack.look(of_chat("/chat", chat))
    number, since = (
        attack.watched.page.locator(f".memories li {tag}").first.evaluate(PLACE) for tag in (".number", "small")
    )
    assert (since["x"], since["y"] > number["y"]) == (number["x"], True), "what follows a fact has a line of its own"
