"""Each page shows what the commands say, and each action has the effect of its command."""

from __future__ import annotations

import io
import re
import time
import zipfile
from pathlib import Path

import orjson
import pytest

from dispatcher.features.web.pages import moving, nights
from dispatcher.features.web.reading import everywhere
from dispatcher.features.web.tests.conftest import Site, Visitor, serving
from nightly.imports.formats import formats
from shared.errors import InvalidInput
from shared.wire import keys
from tests.support.day.store_rows import keep
from tests.support.machine import wait_for
from tests.support.world import World, sign_of_life

ODD = "a/b?c&<i>"


def finished(visitor: Visitor, page: str) -> str:
    """The page of a job, once that has ended."""
    (job,) = set(re.findall(r'/jobs/([0-9a-f]{32})"', page))
    wait_for(lambda: "<strong>Running" not in visitor.get(f"/jobs/{job}"), "the job to end", seconds=300)
    return visitor.get(f"/jobs/{job}")


def test_the_first_page_says_what_is_new_and_due_and_in_one_line_how_it_is(site: Site, talked: World) -> None:
    visitor = site.visitor()
    talked.command("hmem", "memory", "add", "9912", "Bleed the radiators", "--type", "goal", "--deadline", "tomorrow")
    page = visitor.get("/")
    new, due, chats = (page.index(f'<h2 id="{one}"') for one in ("new", "due", "chats"))
    assert new < page.index("The boiler is a Vaillant") < due < page.rindex("Bleed the radiators") < chats
    assert "<strong>Anna</strong>" in page[chats:], "a chat is called by who speaks there"
    assert "The boiler was repaired by Mr Ott." in page[chats:], "its last line"
    assert "the canary &lt;b&gt;sings&lt;/b&gt;" in page[chats:], "also where only a release has it"
    assert "No dispatcher" in page
    assert 'href="/operations"' in page
    visitor.post("/chat/forget", chat="9912", number="1", back="/")
    assert "Vaillant" not in visitor.get("/")


def test_one_search_finds_it_in_every_chat_that_may_be_seen(
    site: Site, talked: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = site.visitor()
    page = visitor.get("/search", q="the canary, or repairing")
    assert page.index("Mr Ott") > page.index("<h2"), "under its chat"
    assert "was <mark>repaired</mark> by Mr Ott" in page, "whatever the endings"
    assert "the <mark>canary</mark> &lt;b&gt;sings&lt;/b&gt;" in page
    link = re.search(r'href="(/chat/talk[^"]+#t3%3Auser)"', page)
    assert link
    assert 'id="t3:user"' in visitor.get(link[1].replace("&amp;", "&"))
    assert "Nothing found" in visitor.get("/search", q="xylophone")
    monkeypatch.setattr(everywhere, "SECONDS", -1.0)
    assert "Searched the 0 newest of 2 chats" in visitor.get("/search", q="boiler"), "it says what it left out"
    with serving(talked, chats="9912") as narrowed:
        assert "sings" not in narrowed.visitor().get("/search", q="canary")


def test_operations_say_what_is_wrong_and_what_to_do(site: Site) -> None:
    page = site.visitor().get("/operations", check="1")
    assert "Problems: " in page
    assert "What to do:" in page
    assert "Release in use" in page
    assert "2: 4 messages of 2 chats" in page


def test_nights_show_each_night_and_the_releases(site: Site, talked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor()
    page = visitor.get("/nights")
    assert page.count('href="/nights/') >= 2
    assert '<td class="n">3</td>' in page, "the new turns of the first night"
    bars = re.findall(r"<title>Night (\d), [-0-9]+ [0-9:]+: ([^<]+)</title>", page)
    assert bars[:2] == [("1", "3 new messages"), ("2", "1 new message")], "what a bar says"
    heights = re.findall(r'class="bar"[^>]* height="([0-9.]+)"', page)
    assert [round(float(one)) for one in heights[:2]] == [60, 21], "three new turns, then one"
    night = visitor.get("/nights/1")
    for said in ("9912", "3 archived = 3 in", "took: export "):
        assert said in night, said
    assert "questions found" in visitor.get("/nights/2")
    visitor.get("/nights/77", 404)
    visitor.get("/nights/x", 400)
    monkeypatch.setattr(nights, "NIGHTS", 1)
    with serving(talked) as later:
        visitor = later.visitor()
        assert "/nights/1" not in visitor.get("/nights")
        assert "3 archived" in visitor.get("/nights/1"), "one that is not among the newest is there, too"


def test_a_night_runs_from_the_page_and_its_output_stays(site: Site, talked: World) -> None:
    visitor = site.visitor()
    visitor.get("/nights")
    talked.say("t9", "Something new was said.")
    page = finished(visitor, visitor.post("/nights/run"))
    assert "Night 3 done" in page
    assert "<strong>Done</strong>" in page
    assert talked.redis.exists("hcli:memory:t9:user") == 0


def test_going_back_to_a_release_pins_it_and_unpinning_begins(site: Site) -> None:
    visitor = site.visitor()
    assert 'action="/releases/use"' in visitor.get("/nights")
    assert "Release 1 is current" in finished(visitor, visitor.post("/releases/use", run="1"))
    assert "Remove the pin" in visitor.get("/nights")
    assert "<h1>Remove the pin</h1>" in visitor.post("/releases/unpin")


def test_chats_are_listed_and_found_by_their_id_with_memories_and_days(site: Site, talked: World) -> None:
    visitor = site.visitor()
    page = visitor.get("/chat", chat="9912")
    assert "The boiler is a Vaillant" in page
    assert "4 messages" in page
    assert 'class="calendar"' in page
    assert "Chat a/b?c&amp;&lt;i&gt;" in visitor.get("/chat", chat=ODD)
    page = visitor.get("/chats")
    assert "a/b?c&amp;&lt;i&gt;" in page
    assert "<i>" not in page
    keep(talked, "Nothing was ever said here", "facts-only")
    assert "facts-only" in visitor.get("/chats"), "an import may have brought facts alone"
    for wanted in ("99", "anna"):
        found = visitor.get("/chats", q=wanted)
        assert "9912" in found
        assert "a/b" not in found


def test_the_talk_goes_by_pages_and_by_days(site: Site, talked: World) -> None:
    for number in range(120):
        talked.say(f"m{number:03}", f"message number {number}", timestamp=1_712_000_000.0 + 60 * (number // 2))
        talked.say(f"same{number:03}", f"at once {number}", timestamp=1_600_000_000.0)
    talked.night()
    visitor = site.visitor()
    seen: list[str] = []
    page = visitor.get("/chat/talk", chat="9912", date="2024-04-02")
    while True:
        seen = re.findall(r"message number (\d+)", page) + seen
        older = re.search(r'href="([^"]+)" rel="prev"', page)
        if older is None:
            break
        page = visitor.get(older[1].replace("&amp;", "&"))
    assert seen == [str(number) for number in range(120)], "each once, in order, two of one second together"
    assert visitor.get("/chat/talk", chat="9912", date="2020-09-13").count("at once") == 50, "many of one second, too"
    assert "Nothing was said here" in visitor.get("/chat/talk", chat="9912", date="2020-02-28")
    newest = visitor.get("/chat/talk", chat="9912")
    assert "repaired by Mr Ott" in newest
    visitor.get("/chat/talk", 400, chat="9912", date="yesterday")
    for end in ("x", "-1", "9" * 5000):
        visitor.get("/chat/talk", 400, chat="9912", end=end)


def test_each_of_the_last_answers_says_why(site: Site, talked: World) -> None:
    old = {"at": time.time() - 8 * 86_400, "task_id": "old", "parts": [], "hits": []}
    talked.redis.rpush(keys.why("9912"), orjson.dumps(old), orjson.dumps(old))
    dispatcher = talked.start_dispatcher()
    for number in range(2):
        talked.enqueue(f"q{number}", "What is the code of the boiler?")
    wait_for(lambda: talked.redis.exists(keys.done("q1")), "two answers")
    dispatcher.stop()
    stored = talked.redis.lrange(keys.why("9912"), 0, -1)
    assert [orjson.loads(one)["task_id"] for one in stored] == ["q0", "q1"], "those of eight days ago are gone"
    visitor = site.visitor()
    page = visitor.get("/chat/why", chat="9912", task="q0")
    assert "The boiler code is 4711." in page
    assert page.count("What is the code of the boiler?") >= 2, "the question, and the one that was recalled"
    assert "are not here any more" not in page
    assert page.count('aria-current="true"') == 1
    assert "is not known" in visitor.get("/chat/why", chat="9912", task="older")
    for broken in (b"broken", b"[]", b'{"parts":[1],"hits":[]}', b'{"parts":[],"hits":[],"at":1e30}'):
        talked.redis.rpush(keys.why("9912"), broken)
    assert "4 records cannot be read" in visitor.get("/chat/why", chat="9912")
    visitor.get("/chat", chat="9912")
    visitor.post("/chat/forget", chat="9912", number="1")
    assert talked.redis.llen(keys.why("9912")) == 0, "an explanation may hold what was forgotten"


def test_forgetting_needs_the_word_and_leaves_a_receipt(site: Site, talked: World) -> None:
    visitor = site.visitor()
    visitor.get("/import")
    files = {"file": ("old.jsonl", b"a text with the canary 4711")}
    visitor.client.post("/import/upload", data={"form-token": visitor.token}, files=files)
    (talked.root / "state" / "web-export-left").mkdir()
    assert list((talked.root / "state" / "web-uploads").iterdir())
    visitor.get("/forget")
    nothing = visitor.post("/forget/preview", what="matching", text="zeppelin", chat="")
    assert "nothing would be erased" in nothing and "Erase permanently" not in nothing
    talked.redis.rpush(keys.TASKS, b'{"task_id":"zz1","message":"a zeppelin","chat_id":"9912"}')
    waiting = visitor.post("/forget/preview", what="matching", text="zeppelin", chat="")
    assert "Erase permanently" in waiting, "a message that is not answered yet is something"
    assert '<p class="problem">1 waiting message would get no answer. This' in waiting
    talked.redis.delete(keys.TASKS)
    preview = visitor.post("/forget/preview", what="matching", text="boiler", chat="anna")
    assert "4 messages and 1 fact</strong> of Anna would be erased" in preview
    assert re.search(r">2026-05-08</a>: 2 messages<", preview), "of which day"
    for said in (
        "The <mark>boiler</mark> code is 4711.",
        "The <mark>boiler</mark> is a Vaillant",
        "What this cannot reach",
    ):
        assert said in preview, said
    for technical in ("t1:", "history", "systemctl", "turn<", "layer"):
        assert technical not in preview[preview.index("<main") : preview.rindex("<form")], technical
    assert 'name="chat" value="9912"' in preview, (
        "what is confirmed is the chat that was shown, whoever has its name by then"
    )
    form = {"what": "matching", "text": "4711"}
    assert "Nothing was erased" in visitor.post("/forget/carry-out", 400, confirmation="yes", **form)
    assert "4711" in visitor.get("/chat/talk", chat="9912")
    done = finished(visitor, visitor.post("/forget/carry-out", confirmation="forget", **form))
    assert "<strong>Done</strong>" in done, done
    assert "4711" not in visitor.get("/chat/talk", chat="9912")
    receipts = visitor.get("/forget")
    assert "complete" in receipts
    assert re.search(r"</th><td>\d+ [a-z]+", receipts) and "{" not in receipts[receipts.index("<main") :], "in words"
    assert not list((talked.root / "state" / "web-uploads").iterdir()), "what was uploaded goes, too"
    assert not (talked.root / "state" / "web-export-left").exists()
    stored = [path for path in (talked.root / "state").rglob("*") if path.is_file() and b"4711" in path.read_bytes()]
    assert not stored, "the page keeps no words"


def test_an_export_is_a_zip_made_one_at_a_time_that_leaves_nothing(site: Site, talked: World) -> None:
    visitor = site.visitor(1)
    with moving.EXPORTING:
        assert "Another export is being made" in visitor.get("/chat/export", 400, chat="9912")
    answer = visitor.client.get("/chat/export", params={"chat": "9912"})
    assert answer.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    texts = b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".jsonl"))
    assert b"boiler" in texts
    assert b"canary" not in texts, "of another chat"
    wait_for(lambda: not list((talked.root / "state").glob("web-export-*")), "the export to be removed")


def test_old_history_is_uploaded_tried_and_imported(site: Site, talked: World) -> None:
    visitor = site.visitor()
    visitor.get("/import")
    line = b'{"task_id":"old1","role":"user","chat_id":"9912","content":"An old story.","timestamp":1600000000.0}\n'
    files = {"file": ("old.jsonl", line)}
    page = visitor.client.post("/import/upload", data={"form-token": visitor.token}, files=files)
    assert "The file is here" in page.text
    assert all(f'value="{source}"' in page.text for source in formats()), "each format can be chosen"
    name = page.url.params["file"]
    plan = visitor.post("/import/plan", source="", file=name)
    assert "What would come in" in plan
    assert "JSON lines" in plan, "by its content"
    stored = talked.root / "state" / "web-uploads" / name
    assert stored.exists()
    done = finished(visitor, visitor.post("/import/stage", source="jsonl", file=name))
    assert not stored.exists(), "it is in the archive now"
    assert "<strong>Done</strong>" in done, done
    assert "An old story." in visitor.get("/chat/talk", chat="9912", date="2020-09-13")
    name_of_import = re.search(r'name="import" value="(\w+)"', visitor.get("/import", list="1"))
    assert name_of_import
    finished(visitor, visitor.post("/import/undo", **{"import": name_of_import[1], "sure": "1"}))
    assert "An old story." not in visitor.get("/chat/talk", chat="9912", date="2020-09-13")
    assert "Nothing has been imported yet." in visitor.get("/import", list="1")
    assert "no longer there" in visitor.post("/import/plan", 400, source="jsonl", file="../../etc/passwd")
    assert "what kind of file" in visitor.post("/import/plan", 400, source="exe", file=name)


def test_a_job_says_how_it_ended(site: Site) -> None:
    jobs = site.prepared.served.jobs
    job_id = jobs.day("A look", "test", "--help")
    failed = jobs.day("A failure", "test", "release", "verify", "99")
    wait_for(lambda: all(job.state != "running" for job in jobs.newest()), "the jobs to end")
    assert [(job.job_id, job.state) for job in jobs.newest()] == [(failed, "failed"), (job_id, "done")]
    assert "Usage" in jobs.newest()[1].output
    site.visitor().get("/jobs/../../etc", 404)


def test_pages_answer_without_redis_and_without_a_release(light: World) -> None:
    with serving(light) as site:
        visitor = site.visitor()
        for path in ("/", "/operations", "/search", "/nights", "/chats", "/forget", "/import", "/settings"):
            visitor.get(path)
        light.memory_dir.mkdir()
        with sign_of_life(light.redis):
            fresh = visitor.get("/")
        assert "Everything is running." in fresh and fresh.count("There is no release") == 1
        assert "All well" not in fresh and "No night" not in fresh, "the doctor may warn, and once is enough"
        visitor.get("/search", q="boiler")
        visitor.get("/chat", chat="9912")
        visitor.get("/chat/talk", chat="9912")
    with serving(light, redis_url="redis://127.0.0.1:1/0") as site:
        visitor = site.visitor()
        page = visitor.get("/")
        assert "cannot be read" in page
        assert "cannot be read" in visitor.get("/operations")
        for path in ("/nights", "/chats", "/settings"):
            visitor.get(path)
        visitor.get("/chat/talk", chat="9912")


def test_a_day_store_that_cannot_be_read_is_said_once_in_plain_words(talked: World, tmp_path: Path) -> None:
    (tmp_path / "taken.sqlite").mkdir()
    with serving(talked, day_store_url=f"sqlite:///{tmp_path}/taken.sqlite") as site:
        visitor = site.visitor()
        for path in ("/", "/chats", "/chat", "/changes"):
            page = visitor.get(path, chat="9912")
            assert page.count("taken.sqlite cannot be used: unable to open database file.") == 1, path
            assert "Error" not in page and "it is running" not in page, path
            assert "Nothing new" not in page and "Nothing is noted" not in page and "No night has" not in page, path
        said = visitor.post("/chat/add", 503, chat="9912", text="The valve is blue")
        assert "cannot be used: unable to open database file." in said


def test_no_text_to_forget_is_never_the_whole_chat(talked: World) -> None:
    """What the page starts reads the text from its standard input, which may be empty when the page dies."""
    for more in ("--yes", "--json"):
        refused = talked.command("hmem", "forget", "--chat=9912", "--matching=-", more, check=False)
        assert refused.returncode == InvalidInput.exit_code
        assert "read no text from standard input" in refused.stderr


def test_a_narrowed_session_sees_no_output_and_no_receipt_of_others(talked: World) -> None:
    with serving(talked, chats="9912") as site:
        jobs, visitor = site.prepared.served.jobs, site.visitor()
        job = jobs.day("A look", "test", "--help", chats=["9912"])
        wait_for(lambda: "Usage" in (jobs.get(job) or pytest.fail("it is there")).output, "the job's output")
        assert "Usage" not in visitor.get(f"/jobs/{job}")
        visitor.get(f"/jobs/{jobs.day('Not theirs', 'test', '--help', chats=['77'])}", 404)
    receipt = {"finished_at": 1.0, "complete": True, "layers": {}, "stays": [], "pending": []}
    (talked.root / "state" / "receipts").mkdir()
    for name, chats in (("a", []), ("b", ["77"])):
        path = talked.root / "state" / "receipts" / f"{name}.json"
        path.write_bytes(orjson.dumps(receipt | {"id": f"secret-{name}", "chats": chats}))
    with serving(talked, chats="9912") as site:
        assert "secret-" not in site.visitor().get("/forget")
    with serving(talked) as site:
        assert site.visitor().get("/forget").count("secret-") == 2
