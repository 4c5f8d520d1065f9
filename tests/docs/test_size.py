"""The house stays small: lines of code, settings, commands and exit codes have budgets, which only go down."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from scripts.generate_docs import all_commands
from shared.config.settings import setting_names
from shared.errors import exit_codes
from tests.docs.test_structure import modules
from tests.support.world import REPOSITORY

#: Room → the most lines of code that it may have. A room that has shrunk by more than LEEWAY gets a smaller budget.
BUDGETS = {
    "dispatcher": 0,
    "dispatcher/answering": 1709,
    "dispatcher/bots": 2495,
    "dispatcher/chat_data": 2077,
    "dispatcher/claude": 939,
    "dispatcher/cli": 1584,
    "dispatcher/features": 7519,
    "dispatcher/health": 1286,
    "dispatcher/installation": 1603,
    "dispatcher/memory": 4025,
    "dispatcher/prompt": 821,
    "dispatcher/queue": 1109,
    "dispatcher/releases": 431,
    "nightly": 330,
    "nightly/archive": 1738,
    "nightly/backfill": 344,
    "nightly/cli": 634,
    "nightly/imports": 3390,
    "nightly/index": 786,
    "nightly/night": 784,
    "nightly/steps": 945,
    "nightly/writing": 449,
    "scripts": 2399,
    "shared": 149,
    "shared/config": 904,
    "shared/delivery": 685,
    "shared/embedding": 989,
    "shared/ranking": 732,
    "shared/release": 663,
    "shared/search": 1486,
    "shared/system": 1268,
    "shared/text": 839,
    "shared/turns": 1109,
    "shared/vectors": 1523,
    "shared/wire": 662,
    "tests": 42854,
}
LEEWAY = 0.05
#: What begins a module or, indented, follows a colon. Parsing the files for it would take thirty times as long.
DOCSTRING = re.compile(r'(\A(?:#.*\n)*|:(?:[ ]*#.*)?\n[ ]+)r?"{3}(?s:.*?)"{3}$', re.MULTILINE)
SETTINGS, COMMANDS, EXIT_CODES = 74, 40, 26


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor a comment nor part of a docstring."""
    lines = DOCSTRING.sub(r"\1", path.read_text(encoding="utf-8")).splitlines()
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)


def test_no_room_grows_and_budgets_follow_the_rooms_down() -> None:
    found = Counter[str]()
    for package in ("dispatcher", "nightly", "shared", "scripts", "tests"):
        for path in modules(package):
            parts = path.relative_to(REPOSITORY).parts
            room = package if package in ("scripts", "tests") or len(parts) < 3 else "/".join(parts[:2])
            found[room] += code_lines(path)
    assert set(found) == set(BUDGETS), "each room has a budget"
    over = {room: lines for room, lines in found.items() if lines > BUDGETS[room]}
    assert not over, f"{over}: delete something, or move it to where it belongs"
    loose = {room: lines for room, lines in found.items() if lines < BUDGETS[room] * (1 - LEEWAY) - 20}
    assert not loose, f"{loose}: lower these budgets"


def test_the_whole_is_within_its_budget() -> None:
    product = sum(lines for room, lines in BUDGETS.items() if room not in ("scripts", "tests"))
    assert product <= 46_007


def test_settings_commands_and_exit_codes_are_few() -> None:
    commands = [path for listed in all_commands().values() for path, _ in listed]
    assert len(setting_names()) <= SETTINGS
    assert len(commands) <= COMMANDS, commands
    assert len(exit_codes()) <= EXIT_CODES
