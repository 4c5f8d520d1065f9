"""What a run leaves out by default, and the line at its end that says so.

Tests marked `slow` or `chaos` run with `--all`, with a `-m` of one's own, and where the command line names their file or the test itself.
"""

from __future__ import annotations

from typing import Any

import pytest

LEFT_OUT = ("chaos", "slow")
_COUNTS = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the tests marked slow or chaos")
    parser.addoption(
        "--interop",
        metavar="DIR",
        help="h-cli's files, whose bot and dispatcher are run beside ours (scripts/test --interop DIR)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTS] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.all or config.option.markexpr:
        return
    named = {argument.split("::")[0] for argument in config.args if ".py" in argument}
    files = {str((config.invocation_params.dir / name).resolve()) for name in named}
    kept, dropped, counts = [], [], config.stash[_COUNTS]
    for item in items:
        mark = next((mark for mark in LEFT_OUT if item.get_closest_marker(mark)), None)
        if mark is None or str(item.path) in files:
            kept.append(item)
        else:
            dropped.append(item)
            counts[mark] = counts.get(mark, 0) + 1
    if dropped:
        items[:] = kept
        config.hook.pytest_deselected(items=dropped)
    if (output := getattr(config, "workeroutput", None)) is not None:
        output["left_out"] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker has ended: each has collected the same."""
    if found := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[_COUNTS] = dict(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if counts := config.stash[_COUNTS]:
        what = ", ".join(f"{counts[mark]} {mark}" for mark in LEFT_OUT if mark in counts)
        terminalreporter.write_line(f"left out: {what}; scripts/test --all runs them")
