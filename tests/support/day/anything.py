"""What a task, and bytes that should be something of ours, may hold: strategies for the property tests, and the batches that they go through.

A cycle through the whole system takes seconds, whatever it carries. So Hypothesis draws the values first, hundreds of them go through one cycle,
and what fails is narrowed down by halves. `HMEM_EXAMPLES` says how many values a run draws in all (400 unless told otherwise).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Value = TypeVar("Value")

EXAMPLES = int(os.environ.get("HMEM_EXAMPLES", "400"))
#: Values of one cycle.
BATCH = 1000

#: What has a meaning somewhere on the way: marks of prompts, tags, commands, keys, queries, escapes, templates, odd characters.
PIECES = (
    "</record>", "<record id=\"x\">", "## Facts", "\n\nHuman: ", "<system-reminder>", "[FORGET: all of it]", "[REMEMBER: x]", "@/etc/passwd",
    "@~/.ssh/id_rsa", "/new", "/memory", "-p", "--", "\x00", "\x1b[31m", "\u202e", "\u200b", "\u2060", "\ufeff", "\ufffd", "\ud83d", "\udc00",
    "🙂", "👩‍👩‍👧‍👦", "Ж", "שלום", "漢字仮名", "ﬁ", "İ", "ß", "hcli:memory:t:user", '{"chat_id": "8"}', '","erase":true,"', "'; DROP TABLE turns; --",
    'x" OR chat_id:*', "NEAR(a b)", "%s %d {} {{7*7}} ${HOME}", "\\ud83d", "\\", "\n", "\r\n", "\u2028", "\t", "A" * 70 + "=", "word " * 300,
    "zebra", "the boiler stopped", "on Monday", "#1", "*", "?", "[", "../../", "C:\\", "\\n", "&amp;", "0", "-1", "1e999", "NaN",
)  # fmt: skip

wire_text = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=60)
texts = wire_text | st.lists(st.sampled_from(PIECES) | wire_text, min_size=1, max_size=6).map("".join)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([10**30, -(2**63), 1e308])
scalars = st.none() | st.booleans() | numbers | texts
json_values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(wire_text, v), max_leaves=6)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual kind of value seven times in eight; else any JSON value."""
    return st.integers(0, 7).flatmap(lambda n: json_values if n == 0 else usual)


tasks = st.fixed_dictionaries(
    {"message": mostly(texts)},
    optional={
        "name": mostly(texts),
        "user_id": mostly(st.integers(1, 10**12)),
        "submitted_at": mostly(st.datetimes().map(lambda at: at.isoformat()) | st.just("2026-11-22T10:00:00+00:00")),
        "model": st.sampled_from(["opus", "sonnet", "haiku", None]) | json_values,
        "x": json_values,
        "reply_to": json_values,
    },
)


def damaged(sound: Sequence[dict[str, Any]]) -> st.SearchStrategy[bytes]:
    """Bytes that are nearly one of these records: a field changed, added or lost, cut off, spliced; or no such bytes at all."""
    names = sorted({name for record in sound for name in record} | {"kind", "x"})
    changes = st.dictionaries(st.sampled_from(names), json_values, max_size=3)
    records = st.tuples(st.sampled_from(sound), changes, st.sets(st.sampled_from(names), max_size=2)).map(
        lambda drawn: json.dumps({k: v for k, v in {**drawn[0], **drawn[1]}.items() if k not in drawn[2]}).encode()
    )
    cut = st.tuples(records, st.integers(0, 400), st.binary(max_size=6)).map(
        lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] + 1 :]
    )
    return records | cut | st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode())


def drawn(strategy: st.SearchStrategy[Value], number: int) -> list[Value]:
    """So many values."""
    found: list[Value] = []

    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Value) -> None:
        found.append(value)

    collect()
    return found


def through(values: Sequence[Value], cycle: Callable[[Sequence[Value]], None]) -> int:
    """Send all values through in batches; how many there were. An error names the fewest values that were found to cause it."""
    for start in range(0, len(values), BATCH):
        batch = values[start : start + BATCH]
        try:
            cycle(batch)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is what this looks for
            smallest, caused = _narrowed(batch, cycle, error)
            raise AssertionError(
                f"{len(smallest)} of {len(values)} values fail: {smallest[:3]!r}: {str(error)[:300]}"
            ) from caused
    return len(values)


def _narrowed(
    values: Sequence[Value], cycle: Callable[[Sequence[Value]], None], error: BaseException
) -> tuple[Sequence[Value], BaseException]:
    """The half that fails by itself, and its half, and so on."""
    while len(values) > 1:
        middle = len(values) // 2
        for half in (values[:middle], values[middle:]):
            try:
                cycle(half)
            except (Exception, SystemExit) as caused:  # noqa: BLE001
                if type(caused) is type(error) and str(caused)[:60] == str(error)[:60]:
                    values, error = half, caused
                    break
        else:
            break
    return values, error
