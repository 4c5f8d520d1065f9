"""The page of imports: each format that a backfill reads can be chosen, with its options."""

from __future__ import annotations

from dispatcher.features.web.tests.conftest import Site
from nightly.imports.formats import formats
from tests.nightly.imports.exports.builders import zipped


def test_an_export_of_another_program_is_tried(site: Site) -> None:
    visitor = site.visitor()
    visitor.get("/import")
    files = {"file": ("chat.zip", zipped({"_chat.txt": "03/04/24, 10:00 - Ann: An old story.\n"}))}
    page = visitor.client.post("/import/upload", data={"form-token": visitor.token}, files=files)
    assert all(f'value="{source}"' in page.text for source in formats()), "each format can be chosen"
    name = page.url.params["file"]
    assert "names no chat" in visitor.post("/import/plan", 400, source="whatsapp", file=name)
    plan = visitor.post("/import/plan", source="whatsapp", file=name, chat="9912", dates="dmy", only="not for this one")
    assert "1 turns found" in plan
    assert "2024-04-03" in plan
