"""The shape of the program, and that what the documents say is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from nightly.pipeline import step_names
from tests.support.world import REPOSITORY

#: The rooms of each package (folders, and modules beside them), the topmost first. A room imports from those below it, never from one above,
#: and within a room no modules import each other in a circle. An import counts wherever it is: late, or for type checking only.
ORDER = {
    "dispatcher": ["features", "cli", "answering", "installation", "bots", "health", "chat_data", "prompt", "queue",
                    "memory", "releases", "claude"],
    "nightly": ["__main__", "cli", "forgetting", "backfill", "pipeline", "lifecycle", "steps", "imports", "writing", "archive",
                "index", "night"],
    "shared": ["delivery", "search", "vectors", "release", "ranking", "embedding", "system", "turns", "wire", "config", "hooks", "text", "errors"],
}  # fmt: skip
PACKAGES = tuple(ORDER)
WITH_DOCSTRINGS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
#: Modules whose code says Telegram beside its bot, the installation and the readers of exports, not counting settings' names. No new ones.
SAYING_TELEGRAM = {
    "dispatcher/cli/main.py", "dispatcher/health/checks/queue.py",
    "dispatcher/chat_data/forget/receipt.py", "shared/config/settings.py", "shared/config/packages.py",
    "dispatcher/bots/hooks.py",
    "dispatcher/features/approvals/feature.py", "dispatcher/features/approvals/telegram.py", "dispatcher/features/guests/commands.py",
    "dispatcher/features/guests/feature.py", "dispatcher/features/guests/invitations.py",
}  # fmt: skip
MOST_ROOMS, MOST_LINES, MOST_FUNCTION_LINES = 12, 400, 60


@cache
def sources() -> dict[Path, ast.Module]:
    """The modules of the product."""
    return {path: tree_of(path) for package in PACKAGES for path in modules(package)}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def code() -> dict[str, str]:
    """Each module of the product → its code without comments and docstrings."""
    return {str(path.relative_to(REPOSITORY)): _without_docstrings(tree) for path, tree in sources().items()}


@cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(package: str) -> list[Path]:
    """Its modules; those of tests are of "tests", also where a feature has them in its folder."""
    if package == "tests":
        return sorted(
            [*(REPOSITORY / package).rglob("*.py"), *(REPOSITORY / "dispatcher" / "features").glob("*/tests/**/*.py")]
        )
    return sorted(
        path for path in (REPOSITORY / package).rglob("*.py") if "tests" not in path.relative_to(REPOSITORY).parts
    )


def name_of(path: Path) -> str:
    """The module as an import names it."""
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


@cache
def graph() -> dict[str, set[str]]:
    """Each module of the product → the modules of the product that it imports; of `from package import module` the module."""
    every = {name_of(path): imports(path) for path in sources()}
    found = {}
    for module, names in every.items():
        inner = {name.rpartition(".")[0] for name in names if name in every}  # of `from package import module`
        found[module] = {name for name in names if name in every and name not in inner} - {module}
    return found


def room_of(module: str) -> tuple[str, str]:
    package, _, rest = module.partition(".")
    return package, rest.partition(".")[0]


def circles(arrows: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules that each reach each other (Tarjan, SIAM J. Comput. 1972)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = set()

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in arrows[module]:
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.add(frozenset(stack[at:]))
            del stack[at:]

    for module in arrows:
        if module not in number:
            visit(module)
    return found


def test_every_room_has_its_place_in_the_order() -> None:
    rooms = {room_of(module) for module in graph() if "." in module}
    listed = [(package, room) for package, names in ORDER.items() for room in names]
    assert rooms == set(listed), "ORDER and the folders differ: put a new room where it belongs, take a gone one out"
    assert len(listed) == len(set(listed))


def test_imports_go_downwards() -> None:
    place = {(package, room): at for package, rooms in ORDER.items() for at, room in enumerate(rooms)}
    upwards = {
        (module, other)
        for module, others in graph().items()
        for other in others
        if (one := room_of(module))[0] == (two := room_of(other))[0] and place.get(one, 0) > place.get(two, 99)
    }
    told = [f"{one} imports {two}, which is above it" for one, two in sorted(upwards)]
    assert not told, f"{told}: move what both need into the lower room, or hand it in as a parameter (see ORDER)"


def test_no_modules_import_each_other() -> None:
    found = circles(graph())
    told = [sorted(one) for one in found]
    assert not told, (
        f"{told}: each of these reaches the others; put the types that they share into a module that imports none of them"
    )


def test_circles_are_found() -> None:
    arrows = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"f"}, "f": {"e"}, "g": {"a", "f"}}
    assert circles(arrows) == {frozenset("abc"), frozenset("ef")}


def test_no_folder_is_crowded() -> None:
    crowded = {}
    for package in (*PACKAGES, "tests"):
        for folder in {path.parent for path in modules(package)}:
            inside = {path.relative_to(folder).parts[0] for path in folder.rglob("*.py")} - {
                "__init__.py",
                "errors.py",
                "tests",
            }
            if len(inside) > MOST_ROOMS:
                crowded[str(folder.relative_to(REPOSITORY))] = len(inside)
    told = [f"{folder}/ has {count} modules and folders" for folder, count in crowded.items()]
    assert not told, f"{told}; {MOST_ROOMS} are the most: give a subject of its own a folder, or merge small modules"


def test_a_public_class_name_stands_for_one_thing() -> None:
    where: dict[str, list[str]] = {}
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(name_of(path))
    twice = {name: places for name, places in where.items() if len(places) > 1}
    told = [f"{name} is defined in {' and in '.join(twice[name])}" for name in sorted(twice)]
    assert not told, f"{told}: give one of them a more exact name"


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [("dispatcher", {"nightly"}), ("nightly", {"dispatcher"}), ("shared", {"dispatcher", "nightly"})],
)
def test_arrows_go_one_way(package: str, forbidden: set[str]) -> None:
    for path in modules(package):
        assert not {name.split(".")[0] for name in imports(path)} & forbidden, path


def test_no_step_imports_a_step() -> None:
    steps = {f"nightly.steps.{name}" for name in step_names()}
    for step in step_names():
        assert not imports(REPOSITORY / "nightly" / "steps" / f"{step}.py") & steps, step


def test_only_the_settings_read_the_environment() -> None:
    allowed = {
        "shared/config/sources.py",
        "shared/config/credentials.py",  # finds the file with the secrets, and hands it to children
        "shared/system/faults.py",  # where tests make the process die
        "shared/system/privileges.py",  # HOME, when root becomes another user
        "shared/embedding/local/embedder.py",  # turns a library's telemetry off
        "dispatcher/installation/environment.py",  # hmem init takes settings from there, and cleans it for services
        "dispatcher/claude/environment.py",  # passes on what the CLI may see
        "dispatcher/features/media/transcription.py",  # passes on what faster-whisper may see
        "dispatcher/health/watchdog.py",  # NOTIFY_SOCKET and WATCHDOG_USEC are systemd's protocol, not settings
    }
    for path in sources():
        if str(path.relative_to(REPOSITORY)) not in allowed:
            assert not re.search(r"os\.environ|getenv", path.read_text(encoding="utf-8")), path


def test_clients_of_redis_are_opened_in_one_place() -> None:
    assert holding(r"from_url\(|\bRedis\(|ConnectionPool\(") == {"shared/wire/client.py"}


def test_redis_keys_are_built_in_one_place() -> None:
    """In the core; a feature has its own in its `keys.py`."""
    found = {name for name in holding(r"['\"]hcli:") if not re.fullmatch(r"dispatcher/features/\w+/keys\.py", name)}
    assert found == {"shared/wire/keys.py"}


def test_nothing_outside_imports_a_feature() -> None:
    for module, others in graph().items():
        own = module.split(".")[:3]
        reached = [one for one in others if one.startswith("dispatcher.features.") and one.split(".")[:3] != own]
        assert not reached, f"{module} imports {reached}: a feature is asked by hooks (shared/hooks.py)"


def test_nothing_else_knows_telegram() -> None:
    known = ("dispatcher/bots/telegram/", "dispatcher/installation/", "nightly/imports/")
    found = holding(r"(?i)telegram(?!_bot_token|_api_url|\.md)")
    assert {one for one in found if not one.startswith(known)} == SAYING_TELEGRAM, "another bot is a folder beside it"


def holding(pattern: str) -> set[str]:
    """The modules in whose code, without docstrings, the pattern is found."""
    return {name for name, text in code().items() if re.search(pattern, text)}


def docstrings(tree: ast.Module) -> list[ast.Constant]:
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, WITH_DOCSTRINGS) and node.body]
    firsts = [body[0].value for body in bodies if isinstance(body[0], ast.Expr)]
    return [first for first in firsts if isinstance(first, ast.Constant) and isinstance(first.value, str)]


def _without_docstrings(tree: ast.Module) -> str:
    texts = [(told, told.value) for told in docstrings(tree)]
    for told, _ in texts:
        told.value = ""
    bare = ast.unparse(tree)
    for told, text in texts:
        told.value = text
    return bare


def test_files_and_functions_stay_short() -> None:
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno
                assert lines <= MOST_FUNCTION_LINES, f"{name_of(path)}.{node.name} has {lines} lines: split it"
    lines_of = {
        str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8").count("\n")
        for package in (*PACKAGES, "tests")
        for path in modules(package)
    }
    told = [f"{path} has {lines} lines" for path, lines in sorted(lines_of.items()) if lines > MOST_LINES]
    assert not told, f"{told}; {MOST_LINES} are the most: split it by subject"
