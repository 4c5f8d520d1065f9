"""What a run leaves out by default, and the line at its end that says so.

Tests marked `slow` or `chaos` run with `--all`, with a `-m` of one's own, and where the command line names their file or the test itself.
Those marked `engines` run with `--engines`, which leaves all others out unless `--all` is given, too, and where they are named.
"""

from __future__ import annotations

import argparse
import gc
from typing import Any

import pytest

#: Mark → what runs its tests.
LEFT_OUT = {"chaos": "--all", "slow": "--all", "engines": "--engines"}
_COUNTS = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the tests marked slow or chaos")
    parser.addoption("--engines", action="store_true", help="only the tests marked engines; with --all also these")
    interop = "h-cli's files, whose bot and dispatcher are run beside ours (scripts/test --interop DIR)"
    parser.addoption("--interop", metavar="DIR", help=interop)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTS] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = {argument.split("::")[0] for argument in config.args if ".py" in argument}
    files = {str((config.invocation_params.dir / name).resolve()) for name in named}
    kept, dropped, counts = [], [], config.stash[_COUNTS]
    for item in items:
        mark = next((mark for mark in LEFT_OUT if item.get_closest_marker(mark)), None)
        if _is_wanted(mark, config.option) or (str(item.path) in files and not config.option.engines):
            kept.append(item)
        else:
            dropped.append(item)
            if mark and not config.option.engines:
                counts[mark] = counts.get(mark, 0) + 1
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)
    if (output := getattr(config, "workeroutput", None)) is not None:
        output["left_out"] = counts


def _is_wanted(mark: str | None, option: argparse.Namespace) -> bool:
    """Whether a test of that mark runs where nobody has named its file."""
    if mark == "engines":
        return bool(option.engines or "engines" in option.markexpr)
    if option.engines:
        return bool(option.all)
    return bool(mark is None or option.all or option.markexpr)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported and collected by now is no garbage: no collection walks through it again, here or in a process that is forked."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker has ended: each has collected the same."""
    if found := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[_COUNTS] = dict(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if counts := config.stash[_COUNTS]:
        what = ", ".join(f"{counts[mark]} {mark} ({option})" for mark, option in LEFT_OUT.items() if mark in counts)
        terminalreporter.write_line(f"left out: {what}; scripts/test with that option runs them")
