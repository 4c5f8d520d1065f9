"""The house stays small: lines of code, settings, commands and exit codes have budgets, which only go down."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from scripts.generate_docs import all_commands
from shared.config.settings import setting_names
from shared.errors import exit_codes
from tests.docs.test_structure import docstrings, modules
from tests.support.world import REPOSITORY

#: Room → the most lines of code that it may have. A room that has shrunk by more than LEEWAY gets a smaller budget.
BUDGETS = {
    "dispatcher": 10,
    "dispatcher/answering": 3440,
    "dispatcher/chat_data": 2570,
    "dispatcher/claude": 1170,
    "dispatcher/cli": 1540,
    "dispatcher/health": 2500,
    "dispatcher/installation": 2230,
    "dispatcher/memory": 6580,
    "dispatcher/prompt": 820,
    "dispatcher/queue": 1120,
    "dispatcher/releases": 520,
    "dispatcher/servers": 2090,
    "dispatcher/telegram": 3390,
    "nightly": 480,
    "nightly/archive": 2890,
    "nightly/backfill": 470,
    "nightly/cli": 870,
    "nightly/imports": 3170,
    "nightly/index": 1270,
    "nightly/night": 840,
    "nightly/steps": 1040,
    "nightly/writing": 380,
    "scripts": 4440,
    "shared": 70,
    "shared/config": 1100,
    "shared/delivery": 820,
    "shared/embedding": 990,
    "shared/ranking": 1000,
    "shared/release": 830,
    "shared/search": 1640,
    "shared/system": 1300,
    "shared/text": 1460,
    "shared/turns": 1170,
    "shared/vectors": 2150,
    "shared/wire": 1120,
    "tests": 51000,
}
LEEWAY = 0.05
SETTINGS, COMMANDS, EXIT_CODES = 90, 48, 32


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    source = path.read_text(encoding="utf-8")
    told = {n for one in docstrings(ast.parse(source)) for n in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    lines = enumerate(source.splitlines(), start=1)
    return sum(
        number not in told and bool(line.strip()) and not line.lstrip().startswith("#") for number, line in lines
    )


def test_no_room_grows_and_budgets_follow_the_rooms_down() -> None:
    found = Counter[str]()
    for package in ("dispatcher", "nightly", "shared", "scripts", "tests"):
        for path in modules(package):
            room = "/".join(path.relative_to(REPOSITORY).parts[: 1 if package in ("scripts", "tests") else 2])
            found[room if not room.endswith(".py") else package] += code_lines(path)
    assert set(found) == set(BUDGETS), "each room has a budget"
    over = {room: lines for room, lines in found.items() if lines > BUDGETS[room]}
    assert not over, f"{over}: delete something, or move it to where it belongs"
    loose = {room: lines for room, lines in found.items() if lines < BUDGETS[room] * (1 - LEEWAY) - 20}
    assert not loose, f"{loose}: lower these budgets"


def test_the_whole_is_within_its_budget() -> None:
    product = sum(lines for room, lines in BUDGETS.items() if room not in ("scripts", "tests"))
    assert product <= 54_000


def test_settings_commands_and_exit_codes_are_few() -> None:
    commands = [path for listed in all_commands().values() for path, _ in listed]
    assert len(setting_names()) <= SETTINGS
    assert len(commands) <= COMMANDS, commands
    assert len(exit_codes()) <= EXIT_CODES
