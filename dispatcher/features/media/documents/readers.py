"""One reader for each form of document. Runs in the child process only (child.py), so the libraries are imported here where they are needed."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

from dispatcher.features.media.documents.forms import FileForm, form_of, looks_written, plain_text
from shared.text.format import cut

#: What an office file may take unpacked (bytes), of how many parts, and from which size on (bytes) how many times its packed size: a few kilobytes
#: of the same tag keep a library busy for a minute.
UNPACKED_BYTES, PARTS, RATIO_FROM, RATIO = 200_000_000, 5_000, 1_000_000, 200
#: Of a file whose encoding is not said: as much is looked at to guess it. Bytes.
GUESSED_FROM = 200_000
_OPEN_DOCUMENT = {
    "application/vnd.oasis.opendocument.text": "OpenDocument text",
    "application/vnd.oasis.opendocument.spreadsheet": "OpenDocument spreadsheet",
    "application/vnd.oasis.opendocument.presentation": "OpenDocument presentation",
}
_TEXT_TAG = re.compile(r"\}(?:p|h)\Z")
_CELL, _ROW = "}table-cell", "}table-row"
#: Links that hold a file themselves: nobody reads them.
_DATA_LINK = re.compile(r"data:[\w/+.-]{1,100};base64,[A-Za-z0-9+/=_-]*")


class TimeUp(Exception):
    """The time limit, wherever the program is."""


class NotConverted(Exception):
    """The document is not read; the text is a key of REFUSALS (conversion.py)."""


def read(content: bytes, pages: int, characters: int) -> dict[str, object]:
    """What child.py prints; NotConverted, or an error of a library."""
    form = form_of(content)
    if form is FileForm.PDF:
        return _pdf(content, pages, characters)
    if form is FileForm.ZIPPED:
        return _zipped(content, characters)
    if form is FileForm.OLE:
        raise NotConverted("locked" if "EncryptedPackage".encode("utf-16-le") in content else "old")
    if form is FileForm.RTF:
        return _said("RTF document", _rtf(content), characters)
    if form is FileForm.HTML:
        return _said("web page", _converted("HtmlConverter", content, ".html"), characters)
    return _said("text", decoded(content), characters)


def _said(form: str, text: str, characters: int, pages: int = 0) -> dict[str, object]:
    text = text.replace("\0", "").strip()
    if not text and form != "PDF":
        raise NotConverted("empty")
    return {"form": form, "text": cut(text, characters), "characters": len(text), "pages": pages}


def decoded(content: bytes) -> str:
    """The text of a file in whatever encoding; NotConverted for what is none."""
    if (text := plain_text(content)) is not None:
        return text
    try:
        text = content.decode(_guessed(content[:GUESSED_FROM]))
    except (UnicodeDecodeError, LookupError):
        raise NotConverted("unknown") from None
    if not looks_written(text) or not any(one.isalnum() for one in text):
        raise NotConverted("unknown")
    return text


def _guessed(beginning: bytes) -> str:
    """The encoding of text that is not UTF-8, as far as it can be told."""
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(beginning).best()
    return best.encoding if best is not None else "cp1252"


# PDF.


def _pdf(content: bytes, pages: int, characters: int) -> dict[str, object]:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        if reader.is_encrypted:
            raise NotConverted("locked")
        count = len(reader.pages)
    except PyPdfError:
        raise NotConverted("damaged") from None
    if count > pages:
        raise NotConverted("pages")
    if count == 0:
        raise NotConverted("damaged")
    found: list[str] = []
    try:
        for page in reader.pages:
            found.append(_page(page))
            if sum(map(len, found)) > characters:
                break
    except TimeUp:  # Claude sees the pages, and memory has the words so far
        pass
    return _said("PDF", "\n\n".join(filter(None, found)), characters, count)


def _page(page: Any) -> str:
    """Its words; none where they cannot be read, as in a picture of a page."""
    try:
        return str(page.extract_text() or "").strip()
    except TimeUp:
        raise
    except Exception:  # noqa: BLE001 - the library has many errors for one odd page, and the others are worth reading
        return ""


# Office files: ZIP archives with a certain content.


def _zipped(content: bytes, characters: int) -> dict[str, object]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            _check_size(parts, len(content))
            names = {one.filename for one in parts}
            locked = any(one.flag_bits & 1 for one in parts)
            kind = _kind(archive, names)
            if kind is None:
                raise NotConverted("archive")
            if locked or (kind[0] in _OPEN_DOCUMENT.values() and _is_encrypted(archive, names)):
                raise NotConverted("locked")
            return _said(kind[0], kind[1](content), characters)
    except (zipfile.BadZipFile, EOFError, NotImplementedError):
        raise NotConverted("damaged") from None


def _check_size(parts: list[zipfile.ZipInfo], packed: int) -> None:
    """What a part says of its size is the most that is read of it."""
    whole = sum(one.file_size for one in parts)
    sizes = [(whole, packed), *((one.file_size, one.compress_size) for one in parts)]
    if (
        len(parts) > PARTS
        or whole > UNPACKED_BYTES
        or any(size > max(RATIO_FROM, RATIO * less) for size, less in sizes)
    ):
        raise NotConverted("bomb")


def _kind(archive: zipfile.ZipFile, names: set[str]) -> tuple[str, Callable[[bytes], str]] | None:
    """(what it is called, its reader); None for an archive."""
    known: dict[str, tuple[str, str, str]] = {
        "word/document.xml": ("Word document", "DocxConverter", ".docx"),
        "xl/workbook.xml": ("Excel workbook", "XlsxConverter", ".xlsx"),
        "ppt/presentation.xml": ("PowerPoint presentation", "PptxConverter", ".pptx"),
    }
    if "[Content_Types].xml" in names:
        if part := next((one for one in known if one in names), None):
            form, converter, ending = known[part]
            return form, lambda content: _converted(converter, content, ending)
        if any(one.startswith("xl/") and one.endswith(".bin") for one in names):
            raise NotConverted("old")
    if "mimetype" in names:
        said = archive.read("mimetype")[:200].decode("ascii", "replace").strip()
        if said == "application/epub+zip":
            return "e-book", lambda content: _converted("EpubConverter", content, ".epub")
        if said in _OPEN_DOCUMENT:
            return _OPEN_DOCUMENT[said], _open_document
    return None


def _is_encrypted(archive: zipfile.ZipFile, names: set[str]) -> bool:
    manifest = "META-INF/manifest.xml"
    return manifest in names and b"encryption-data" in archive.read(manifest)


def _converted(converter: str, content: bytes, ending: str) -> str:
    """Markdown by markitdown, without the files that a document holds in its links."""
    from markitdown import StreamInfo, converters

    made = getattr(converters, converter)()
    found = made.convert(io.BytesIO(content), StreamInfo(extension=ending, charset=_charset(content, ending)))
    return _DATA_LINK.sub("", str(found.markdown))


def _charset(content: bytes, ending: str) -> str | None:
    if ending != ".html":
        return None
    return "utf-8" if plain_text(content) is not None else _guessed(content[:GUESSED_FROM])


def _rtf(content: bytes) -> str:
    from striprtf import striprtf

    to_text: Callable[..., object] = striprtf.rtf_to_text
    return str(to_text(content.decode("latin-1"), errors="replace"))


def _open_document(content: bytes) -> str:
    """The paragraphs of a document of LibreOffice; the cells of a table's row in one line."""
    from defusedxml.ElementTree import fromstring

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return "\n".join(_lines(fromstring(archive.read("content.xml"))))


def _lines(element: Any) -> Iterable[str]:
    if element.tag.endswith(_ROW):
        cells = ["".join(one.itertext()).strip() for one in element if one.tag.endswith(_CELL)]
        yield " | ".join(cells).rstrip(" |")
    elif _TEXT_TAG.search(element.tag):
        yield "".join(element.itertext())
    else:
        for one in element:
            yield from _lines(one)
