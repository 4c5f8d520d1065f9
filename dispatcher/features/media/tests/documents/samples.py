"""Documents as people send them, made by a few lines each: PDF, office files, and forms that are meant to harm."""

from __future__ import annotations

import io
import zipfile

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{}</Types>'
_RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>'
)


def pdf(*pages: str) -> bytes:
    """A PDF of these pages, each of some lines in Helvetica."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, page in enumerate(pages):
        shown = "".join(f"({_escaped(line)}) Tj T* " for line in page.splitlines())
        stream = f"BT /F1 12 Tf 50 750 Td 14 TL {shown}ET"
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] {font} /Contents {5 + 2 * number} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{one}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    return out + f"{end}startxref\n{len(out)}\n%%EOF\n".encode()


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def locked_pdf() -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt("a password")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def zipped(parts: dict[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def docx(*paragraphs: str, ahead: str = "", more: dict[str, str | bytes] | None = None) -> bytes:
    """A Word document. `ahead`: a document type declaration, as hostile ones have it."""
    body = "".join(f"<w:p><w:r><w:t>{one}</w:t></w:r></w:p>" for one in paragraphs)
    kind = '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
    document = f'<?xml version="1.0"?>{ahead}<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": _TYPES.format(kind),
        "_rels/.rels": _RELATIONS,
        "word/document.xml": document,
    }
    return zipped(parts | (more or {}))


def xlsx(*rows: list[object], **cells: int) -> bytes:
    """A spreadsheet of these rows, and of single cells by their names."""
    from openpyxl import Workbook

    book, made = Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    for row in rows:
        sheet.append(row)
    for name, value in cells.items():
        sheet[name] = value
    book.save(made)
    return made.getvalue()


def pptx(title: str) -> bytes:
    from pptx import Presentation

    slides, made = Presentation(), io.BytesIO()
    slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = title
    slides.save(made)
    return made.getvalue()


def odt(*paragraphs: str, more: dict[str, str | bytes] | None = None) -> bytes:
    text = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    body = "".join(f"<t:p>{one}</t:p>" for one in paragraphs)
    content = f'<?xml version="1.0"?><o:document-content xmlns:o="urn:o" xmlns:t="{text}"><o:body>{body}</o:body></o:document-content>'
    parts: dict[str, str | bytes] = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content}
    return zipped(parts | (more or {}))


def epub(text: str) -> bytes:
    container = (
        '<?xml version="1.0"?><container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    package = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A book</dc:title></metadata><manifest><item id="a" href="a.xhtml" '
        'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'
    )
    page = f'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>{text}</p></body></html>'
    parts: dict[str, str | bytes] = {"mimetype": "application/epub+zip", "META-INF/container.xml": container}
    parts |= {"content.opf": package, "a.xhtml": page}
    return zipped(parts)


def ole(*streams: str) -> bytes:
    """The beginning of an office file of the old form, with the names of its streams."""
    names = b"".join(one.encode("utf-16-le") + b"\0\0" for one in streams)
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500) + names


def nested_bomb(size: int = 300_000_000) -> bytes:
    """A Word document whose text would be that many bytes unpacked."""
    return docx("short", more={"word/media/large.xml": b"0" * size})


LAUGHS = (
    '<!DOCTYPE w [<!ENTITY a "ha ha ha ha ha ha ha ha">'
    + "".join(f'<!ENTITY {chr(97 + n)} "{f"&{chr(96 + n)};" * 20}">' for n in range(1, 12))
    + "]>"
)
