"""Tables on standard output: drawn on a terminal, plain columns elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, dense: bool = False) -> None:
    """The first column is text, the others are numbers. `dense`: without lines, so that more columns fit."""
    if sys.stdout.isatty():
        _drawn(title, columns, rows, dense=dense)
    else:
        _plain(title, columns, rows)


def _drawn(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, dense: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, box=None if dense else box.HEAVY_HEAD, pad_edge=not dense)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def _plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    sys.stdout.write(f"{title}\n")
    for first, *others in (columns, *rows):
        padded = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        sys.stdout.write("  ".join([first.ljust(widths[0]), *padded]) + "\n")
