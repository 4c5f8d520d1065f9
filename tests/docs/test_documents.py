"""That the documents are short, that what they name exists, and that the pages made from the code are up to date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dispatcher.health.findings import Fault
from nightly.pipeline import step_names
from scripts import generate_docs
from scripts.generate_docs import all_commands, anchor
from shared.config.settings import setting_names
from shared.errors import exit_codes, explanations
from tests.support.world import REPOSITORY

FOLDERS = (".", "docs", "docs/design", "deploy", "systemd", "dispatcher/features/*")
DOCUMENTS = [path for folder in FOLDERS for path in sorted(REPOSITORY.glob(f"{folder}/*.md"))]
WORDS = {"README.md": 700, "ARCHITECTURE.md": 3_000, "CONTRIBUTING.md": 900, "AGENTS.md": 400}
WORDS_OF_DESIGN = 6_000
WORDS_OF_ALL = 30_000
#: Names in capitals that are no settings of ours: the environment's, other programs', and words of formats.
OTHERS_NAMES = {
    "TEST_CLAUDE", "HMEM_CONFIG", "HMEM_CREDENTIALS", "HMEM_CRASH_AT", "HMEM_PARTS", "HMEM_MEMORY", "HMEM_EXAMPLES", "NOTIFY_SOCKET",
    "HMEM_SETTINGS", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "FAST_MODEL", "MAIN_MODEL", "CACHE_BYTES", "CHAT_KEYS",
    "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_DISABLE_AUTO_MEMORY", "CLAUDE_CODE_DISABLE_FILE_MENTIONS",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "AF_UNIX", "AF_NETLINK",
}  # fmt: skip


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize(("name", "most"), WORDS.items())
def test_a_document_stays_short(name: str, most: int) -> None:
    assert len(text_of(REPOSITORY / name).split()) <= most


def test_all_documents_together_stay_within_their_words() -> None:
    """But for the changes of each version, which only get more."""
    words = {name_of(path): len(text_of(path).split()) for path in DOCUMENTS if path.name != "CHANGELOG.md"}
    assert sum(count for name, count in words.items() if name.startswith("docs/design/")) <= WORDS_OF_DESIGN
    assert sum(words.values()) <= WORDS_OF_ALL, sorted(words.items(), key=lambda one: -one[1])[:10]


def test_the_pages_that_are_made_from_the_code_are_up_to_date_and_one_that_is_not_is_named(tmp_path: Path) -> None:
    assert generate_docs.outdated(REPOSITORY) == [], "run scripts/docs"
    assert generate_docs.outdated(tmp_path) == list(generate_docs.PAGES)
    (tmp_path / "docs").mkdir()
    for name, make in generate_docs.PAGES.items():
        (tmp_path / name).write_text(make() + ("more\n" if "keys" in name else ""), encoding="utf-8")
    assert generate_docs.outdated(tmp_path) == ["docs/redis-keys.md"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_row_of_a_table_has_its_cells(path: Path) -> None:
    cells, code = 0, False
    for line in text_of(path).splitlines():
        code ^= line.lstrip().startswith("```")
        if code or not line.startswith("|"):
            cells = 0
            continue
        found = len(re.split(r"(?<!\\)\|", line.strip()))
        assert cells in (0, found), line
        cells = found
    assert not code, "a block of code is not closed"


# ── links ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text_of(path), flags=re.MULTILINE | re.DOTALL)
    return {anchor(re.sub(r"[`*]", "", one).strip()) for one in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)}


def links(path: Path) -> Iterator[str]:
    """Targets of the relative links of a document."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(path)):
        if not re.match(r"[a-z]+:", target):
            yield target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(path: Path) -> None:
    for target in links(path):
        file, _, place = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name_of(path)} links to {target}"
        assert there.is_relative_to(REPOSITORY)
        if place:
            assert place in anchors(there), f"{name_of(path)} links to {target}"


def test_every_document_is_linked_from_another() -> None:
    linked = {(path.parent / target.partition("#")[0]).resolve() for path in DOCUMENTS for target in links(path)}
    assert {path for path in DOCUMENTS if name_of(path).startswith("docs/")} <= linked


# ── what the documents name ──────────────────────────────────────────────────────────────────────────────────────────


@cache
def commands() -> set[str]:
    """Every command and group of commands by its full name."""
    found = set[str]()
    for listed in all_commands().values():
        for path, _ in listed:
            words = path.split()
            found |= {" ".join(words[:number]) for number in range(1, len(words) + 1)}
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_that_is_named_exists(path: Path) -> None:
    text = text_of(path)
    code = "\n".join([*re.findall(r"`([^`\n]+)`", text), *re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)])
    words = r"(?<![\w./-])(?:\S*/bin/)?(hmem(?:-night)?) ([a-z][a-z0-9-]+(?: [a-z][a-z0-9-]+)?)"
    for program, rest in re.findall(words, code):
        first, *more = rest.split()
        assert f"{program} {first}" in commands(), f"{name_of(path)}: {program} {first}"
        below = any(one.startswith(f"{program} {first} ") for one in commands())
        if more and below:
            assert f"{program} {first} {more[0]}" in commands(), f"{name_of(path)}: {program} {rest}"


def test_every_setting_that_is_named_exists() -> None:
    known = {*setting_names(), *OTHERS_NAMES}
    for path in DOCUMENTS:
        lines = re.findall(r"^([A-Z_]+) = ", text_of(path), re.MULTILINE)  # of the example files
        for code in [*re.findall(r"`([^`\n]+)`", text_of(path)), *lines]:
            for name in re.findall(r"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b(?!\*)", code):
                assert name in known, f"{name_of(path)}: {name}"


def test_every_script_that_is_named_exists() -> None:
    for path in DOCUMENTS:
        for name in re.findall(r"(?<![\w-])((?:scripts|deploy|\.ci)/[\w./-]*\w)", text_of(path)):
            made_later = name.startswith(("deploy/secrets", "deploy/.env"))
            assert made_later or (REPOSITORY / name).exists(), f"{name_of(path)}: {name}"


def test_every_file_that_is_named_exists() -> None:
    there = {path.name for package in ("dispatcher", "nightly") for path in (REPOSITORY / package).rglob("*.lua")}
    for path in DOCUMENTS:
        for name in re.findall(r"`((?:dispatcher|nightly|shared|tests|docs|systemd)/[\w./-]*)`", text_of(path)):
            assert (REPOSITORY / name).exists(), f"{name_of(path)}: {name}"
        assert set(re.findall(r"`(\w+\.lua)`", text_of(path))) <= there, name_of(path)


def test_the_tests_that_the_documents_name_are_there() -> None:
    named = {one for path in DOCUMENTS for one in re.findall(r"`(test_\w+)`", text_of(path))}
    tests = (path for room in ("tests", "dispatcher/features") for path in (REPOSITORY / room).rglob("test_*.py"))
    there = {
        name for path in tests for name in re.findall(r"^ *(?:async )?def (test_\w+)", text_of(path), re.MULTILINE)
    }
    assert named <= there, sorted(named - there)
    assert len(named) > 100, "the promises name their proofs"


# ── what must not be missing ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_readme_says_how_to_try_and_to_test_it() -> None:
    assert re.search(r"^\./scripts/demo\b", text_of(REPOSITORY / "README.md"), re.MULTILINE)
    assert re.search(r"^\./scripts/test\b", text_of(REPOSITORY / "README.md"), re.MULTILINE)


def test_every_exit_code_says_what_happened_and_what_to_do() -> None:
    page = text_of(REPOSITORY / "docs" / "exit-codes.md")
    for code, name in exit_codes().items():
        assert re.search(rf"^\| {code} \| `{name}` \| .+\. \| .+\. \|$", page, re.MULTILINE), f"{code} {name}"
    assert set(explanations()) == set(exit_codes())
    assert not {int(fault) for fault in Fault} & set(exit_codes())


def test_every_step_is_in_the_architecture() -> None:
    text = text_of(REPOSITORY / "ARCHITECTURE.md")
    assert " → ".join(step_names()) in text
    for step in step_names():
        assert f"| `{step}` |" in text, step


def test_every_room_is_in_the_architecture() -> None:
    text = text_of(REPOSITORY / "ARCHITECTURE.md")
    for package in ("dispatcher", "nightly", "shared"):
        table = text.partition(f"| `{package}/` |")[2].partition("\n\n")[0]
        named = set(re.findall(r"^\| `([\w./]+)` \|", table, re.MULTILINE))
        inside = (REPOSITORY / package).iterdir()
        rooms = {f"{one.name}/" for one in inside if (one / "__init__.py").is_file()}
        modules = {one.name for one in (REPOSITORY / package).glob("*.py")} - {"__init__.py", "__main__.py"}
        assert named == rooms | modules, package


def test_the_picture_has_no_scripts() -> None:
    assert not re.search(r"<script|<foreignObject|\bon\w+=", text_of(REPOSITORY / "docs" / "day-and-night.svg"))
