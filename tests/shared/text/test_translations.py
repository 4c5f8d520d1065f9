"""The program's own words: which texts are collected, their translations, and which language is spoken where."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from shared.text import translations
from shared.text.translations import LANGUAGES, current_language, later, speaking, tr, tr_count

REPOSITORY = Path(__file__).resolve().parents[3]
COMMANDS = REPOSITORY / "dispatcher" / "answering" / "commands"
OTHERS = sorted(set(LANGUAGES) - {"en"})
#: A command of ours where a line begins, or after a blank: it is what people type, in every language.
COMMAND = re.compile(r"(?:(?<=\s)|^)/[a-z]+(?= |$|[.,;:)])", re.MULTILINE)
#: Texts where a command may stand elsewhere begin their lines with it.
LEADING = re.compile(r"^/[a-z]+", re.MULTILINE)

Text = str | tuple[str, ...]


@pytest.fixture(scope="module")
def script() -> Any:
    """scripts/translations, which has no ending."""
    loader = SourceFileLoader("translations_script", str(REPOSITORY / "scripts" / "translations"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def texts(script: Any) -> Any:
    """The catalogue of the program's texts."""
    return script.template()


@pytest.fixture(scope="module")
def collected(texts: Any) -> list[Text]:
    """Every text of the program; of a counted one both forms."""
    return [tuple(one.id) if isinstance(one.id, list | tuple) else one.id for one in texts if one.id]


def forms(text: Text | list[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def gaps(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


# What is collected.


def calls_of(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def parsed_files() -> Iterator[tuple[Path, ast.Module]]:
    for folder in ("dispatcher", "shared"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "shared.text.translations" in source or path.parent.name == "translations":
                yield path, ast.parse(source)


def test_exactly_the_texts_in_the_code_are_collected(collected: list[Text]) -> None:
    """A string that is only somewhere inside tr(…), such as a name that is compared, would be collected as a text, too; an f-string would be looked
    up with its values."""
    there = set[str]()
    for path, tree in parsed_files():
        for call in calls_of(tree, "tr", "later", "tr_count"):
            there |= {one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
            assert not any(isinstance(one, ast.JoinedStr | ast.BinOp) for one in call.args), f"{path}:{call.lineno}"
    assert {form for text in collected for form in forms(text)} == there


def test_every_gap_of_a_text_has_a_name_and_both_forms_have_the_same(collected: list[Text]) -> None:
    for text in collected:
        named = [gaps(form) for form in forms(text)]
        assert all(one == named[0] for one in named), text
        assert all(name.isidentifier() for name in named[0]), text


# The translations.


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_gaps_and_the_commands_of_its_text(language: str, collected: list[Text]) -> None:
    from babel.messages.pofile import read_po

    with (translations.FOLDER / f"{language}.po").open("rb") as file:
        catalog = read_po(file, locale=language)
    assert {forms(one.id) for one in catalog if one.id} == {forms(one) for one in collected}
    for one in catalog:
        for translated in filter(None, forms(one.string or "") if one.id else ()):
            english = forms(one.id)[-1]
            assert gaps(translated) == gaps(english), (language, english, translated)
            assert LEADING.findall(translated) == LEADING.findall(english), (language, english, translated)
            assert sorted(COMMAND.findall(translated)) == sorted(COMMAND.findall(english)), (language, english)


def test_the_compiled_translations_are_those_of_the_texts(script: Any, texts: Any) -> None:
    for language in OTHERS:
        catalog = script.updated(language, texts)
        assert not [one.id for one in catalog if one.id and not all(forms(one.string))], language
        for ending, content in zip(("po", "mo"), script.written(catalog), strict=True):
            assert (translations.FOLDER / f"{language}.{ending}").read_bytes() == content, "run scripts/translations"


# Which language is spoken.


def test_a_text_is_shown_in_the_language_that_is_spoken() -> None:
    constant = later("Cancelled.")
    assert tr(constant) == "Cancelled." == constant
    with speaking("de"):
        assert tr(constant) == "Abgebrochen."
        assert tr("A text that nobody has translated.") == "A text that nobody has translated."
        assert tr("") == "", "a catalogue has its header there"
        one, two = (tr_count("{count} message", "{count} messages", n).format(count=n) for n in (1, 2))
    assert (one, two) == ("1 Nachricht", "2 Nachrichten")
    assert tr(constant) == "Cancelled."
    assert [tr_count("{count} message", "{count} messages", n).format(count=n) for n in (0, 1)] == [
        "0 messages",
        "1 message",
    ]


def test_two_tasks_speak_their_own_languages_in_their_threads_too() -> None:
    async def answer(code: str) -> list[str]:
        with speaking(code):
            await asyncio.sleep(0)
            there = await asyncio.to_thread(current_language)
            started = asyncio.create_task(_here())
            return [current_language(), there, await started]

    async def _here() -> str:
        return current_language()

    async def both() -> list[list[str]]:
        return list(await asyncio.gather(answer("de"), answer("ru"), answer("nl")))

    assert asyncio.run(both()) == [["de"] * 3, ["ru"] * 3, ["en"] * 3]
    assert current_language() == "en"


# What commands answer.


def literals(node: ast.AST) -> Iterator[ast.expr]:
    """Words for people in an expression that no tr(…) is around: strings with letters, outside of the calls that translate."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("tr", "tr_count"):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and any(map(str.isalpha, node.value)):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from literals(child)


def shown_by(tree: ast.AST) -> Iterator[ast.expr]:
    """What a person reads of each CommandReply: its text, and the labels of its buttons."""
    for call in calls_of(tree, "CommandReply"):
        yield from (*call.args[:1], *(one.value for one in call.keywords if one.arg == "text"))
    for call in calls_of(tree, "row_of"):
        for one in call.args:
            if isinstance(one, ast.Tuple):
                yield one.elts[0]
    for call in calls_of(tree, "Button"):
        yield from call.args[:1]


@pytest.mark.parametrize("path", sorted(COMMANDS.glob("*.py")), ids=lambda path: path.stem)
def test_a_command_answers_nothing_that_cannot_be_translated(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and node.value is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    wrong = list[str]()
    for shown in shown_by(tree):
        wrong += [f"line {one.lineno}: {ast.unparse(one)}" for one in literals(shown)]
        bare = shown.id if isinstance(shown, ast.Name) else ""
        wrong += [f"line {shown.lineno}: {bare}, without tr(…)"] if bare in constants else []
    assert not wrong
