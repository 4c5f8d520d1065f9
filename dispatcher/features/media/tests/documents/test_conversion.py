"""Documents as text: what is read, what is refused and how, and what a hostile file can do to the process that reads it."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from dispatcher.features.media import NotRead
from dispatcher.features.media.documents import child, conversion
from dispatcher.features.media.documents.conversion import Document, DocumentReader
from dispatcher.features.media.tests.documents import samples as documents
from tests.servers.loopback import Loopback
from tests.support.world import REPOSITORY, World

TEXT = "The notice period is three months. Übung macht den Meister."


def numbered(value: object) -> str:
    """Bytes are no name of a test: some hold the time."""
    return "file" if isinstance(value, bytes) else str(value)


@pytest.fixture
def reader(light: World) -> DocumentReader:
    return DocumentReader(light.settings())


def read(reader: DocumentReader, content: bytes) -> Document:
    return asyncio.run(reader.read(content))


def refused(reader: DocumentReader, content: bytes) -> str:
    with pytest.raises(NotRead) as caught:
        read(reader, content)
    return str(caught.value)


@pytest.mark.parametrize(("content", "form"), [
    (b"\xef\xbb\xbf" + TEXT.encode(), "text"),
    (TEXT.encode("utf-16-le"), "text"),
    ((TEXT + "\n").encode("latin-1") * 20, "text"),
    (f"<!DOCTYPE html><html><body><p>{TEXT}</p><script>alert(1)</script></body></html>".encode(), "web page"),
    (rb"{\rtf1\ansi The notice period is three months. \'dcbung macht den Meister.}", "RTF document"),
    (documents.docx(TEXT), "Word document"),
    (documents.xlsx(["clause", TEXT]), "Excel workbook"),
    (documents.pptx(TEXT), "PowerPoint presentation"),
    (documents.odt(TEXT), "OpenDocument text"),
    (documents.epub(TEXT), "e-book"),
], ids=numbered)  # fmt: skip
def test_a_document_is_read_by_what_it_is(reader: DocumentReader, content: bytes, form: str) -> None:
    found = read(reader, content)
    assert found.form == form
    assert "notice period is three months" in found.text
    assert "bung macht den Meister" in found.text
    assert "alert" not in found.text


def test_a_pdf_has_pages_and_words(reader: DocumentReader) -> None:
    found = read(reader, documents.pdf("Lease\nNotice: three months.", "Page two"))
    assert (found.form, found.pages) == ("PDF", 2)
    assert "Notice: three months." in found.text
    assert "Page two" in found.text
    assert read(reader, documents.pdf("")).text == ""


@pytest.mark.parametrize(("content", "words"), [
    (documents.zipped({"a.txt": "text"}), "archive"),
    (gzip.compress(TEXT.encode()), "files of this type"),
    (b"\x7fELF\x02\x01\x01" + bytes(50), "files of this type"),
    (documents.ole("EncryptedPackage"), "password"),
    (documents.ole("WordDocument"), "old format"),
    (documents.locked_pdf(), "password"),
    (documents.odt("x", more={"META-INF/manifest.xml": "<m:encryption-data/>"}), "password"),
    (documents.pdf("x")[:40], "damaged"),
    (documents.docx(""), "no words"),
], ids=numbered)  # fmt: skip
def test_what_is_no_document_is_refused_in_a_sentence(reader: DocumentReader, content: bytes, words: str) -> None:
    sentence = refused(reader, content)
    assert words in sentence
    assert sentence.endswith(".")
    assert "lease" in sentence, "what to do"


def test_what_is_over_the_limits_is_refused_or_cut(light: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_BYTES", 3_000), ("MOST_PAGES", 2), ("MOST_CHARACTERS", 1_000)):
        monkeypatch.setattr(conversion, name, most)
    reader = DocumentReader(light.settings())
    assert "limit for documents is 0.003 MB" in refused(reader, b"x" * 3_001)
    assert "more than 2 pages" in refused(reader, documents.pdf("1", "2", "3"))
    found = read(reader, b"word " * 500)
    assert (len(found.text), found.characters, found.cut) == (1_000, 2_499, True)


# ---------------------------------------------------------------------------------------------------------- what harms


#: Runs a reader on its standard input, and prints how many kilobytes it took at most, and what it said.
_PEAK = """
import resource, subprocess, sys
command = [sys.executable, "-m", "dispatcher.features.media.documents.child", "300", "400000", "60"]
said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, said.decode())
"""


def test_a_sheet_of_two_corners_takes_its_share_of_memory_and_no_more() -> None:
    bomb = documents.xlsx(A1=1, XFD1048576=1)  # the last cell, 17 billion from the first
    done = subprocess.run([sys.executable, "-c", _PEAK], input=bomb, capture_output=True, cwd=REPOSITORY, check=True)
    kilobytes, _, said = done.stdout.decode().partition(" ")
    assert json.loads(said) == {"refused": "memory"}
    unit = (REPOSITORY / "dispatcher/installation/units/hmem-dispatcher.service").read_text()
    most = int(re.findall(r"MemoryMax=(\d+)G", unit)[0]) << 20
    assert int(kilobytes) < most / 4, "a transcript may have half of it (whisper_child.py)"


def test_a_bomb_is_refused_before_it_is_unpacked(reader: DocumentReader) -> None:
    small = documents.docx("a" * 2_000_000)
    assert len(small) < 10_000
    for bomb in (documents.nested_bomb(), small):
        assert "unpacks to far more than a document should" in refused(reader, bomb)


def nested(count: int, more: str = "") -> bytes:
    """A Word document of so many paragraphs, each in the one before it."""
    opened = "".join(f"<w:p w:rsidR='{more and number}{more}'>" for number in range(count))
    return documents.docx(f"a</w:t></w:r>{opened}{'</w:p>' * count}<w:r><w:t>b")


def test_paragraphs_in_paragraphs_hold_no_reader(reader: DocumentReader, monkeypatch: pytest.MonkeyPatch) -> None:
    small = nested(200_000)
    assert len(small) < 10_000
    assert "unpacks to far more than a document should" in refused(reader, small)
    monkeypatch.setattr(conversion, "READ_SECONDS", 1)
    began = time.monotonic()
    sentence = refused(reader, nested(20_000, secrets.token_hex(4)))
    assert "takes too long" in sentence or "too much memory" in sentence
    assert time.monotonic() - began < 1 + child.CPU_SLACK_SECONDS + conversion.START_SECONDS


def test_one_document_is_read_at_a_time(reader: DocumentReader, begun_and_ended: Callable[[], list[str]]) -> None:
    async def both() -> None:
        await asyncio.gather(*(reader.read(documents.docx(TEXT)) for _ in range(2)))

    asyncio.run(both())
    assert begun_and_ended() == ["begun", "ended"] * 2


@pytest.mark.parametrize(("ahead", "made"), [
    (documents.LAUGHS, documents.docx), (documents.LAUGHS, documents.odt),
    ('<!DOCTYPE w [<!ENTITY x SYSTEM "file://{secret}">]>', documents.odt),
], ids=["docx", "odt", "file"])  # fmt: skip
def test_entities_bring_no_file_and_no_flood(reader: DocumentReader, tmp_path: Path, ahead: str, made: Any) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET-file")
    entity = "&l;" if ahead == documents.LAUGHS else "&x;"
    ahead = ahead.replace("{secret}", str(secret))
    content = made(f"text {entity}", ahead=ahead) if made is documents.docx else _odt_with(ahead, entity)
    try:
        found = read(reader, content)
    except NotRead:
        return
    assert "SECRET" not in found.text
    assert found.characters < 1_000


def _odt_with(ahead: str, entity: str) -> bytes:
    body = (
        '<?xml version="1.0"?>'
        + ahead
        + f'<o xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><t:p>text {entity}</t:p></o>'
    )
    return documents.zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": body})


#: Each is tried in turn by one child behind its limits.
REACHING = [
    "import subprocess; subprocess.run(['touch', '{place}'])", "import os; os.system('touch {place}')",
    "import os; os.posix_spawn('/bin/touch', ['touch', '{place}'], {{}})", "open('{place}', 'w')", "import os; os.mkdir('{place}')",
    "import socket; socket.create_connection(('127.0.0.1', {port}))",
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/')", "bytearray(4 << 30)",
]  # fmt: skip
CHILD = """
import sys
from dispatcher.features.media.documents.child import confine
confine(30)
for script in sys.argv[1:]:
    try:
        exec(script)
        print("reached")
    except (PermissionError, MemoryError):
        print("refused")
"""


def test_the_child_reaches_nothing(tmp_path: Path) -> None:
    place, asked = tmp_path / "made", threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()

    with Loopback(Handler) as server:
        scripts = [script.format(place=place, port=server.url.rpartition(":")[2]) for script in REACHING]
        command = [sys.executable, "-c", CHILD, *scripts]
        ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.split() == ["refused"] * len(REACHING), ended.stderr
    assert not place.exists()
    assert not asked.is_set()


def test_what_takes_too_long_is_stopped(reader: DocumentReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "READ_SECONDS", 1)
    rows = "".join(f"<p>{'<b>' * 300}{n}{'</b>' * 300}</p>" for n in range(3_000))
    sentence = refused(reader, f"<!DOCTYPE html><html>{rows}</html>".encode())
    assert "takes too long" in sentence or "too much memory" in sentence
