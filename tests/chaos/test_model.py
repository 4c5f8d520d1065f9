"""The exhaustive model: the program's own order holds in every history; every wrong order is found out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.harness.model import broken_orders, check, product_order

pytestmark = pytest.mark.chaos


def test_the_order_of_the_night_holds_in_every_history() -> None:
    found = check(product_order())
    assert found.violations == set()
    assert found.histories > 20_000


@pytest.mark.parametrize("name", broken_orders())
def test_a_wrong_order_is_found_out(name: str) -> None:
    kinds = {kind for kind, _ in check(broken_orders()[name]).violations}
    assert ("hidden" if name == "flush before switch" else "lost") in kinds


def test_comparing_alone_is_enough_where_the_order_is_right() -> None:
    """That flush looks at the release in use is a second safety, for orders and rollbacks that are not as they should be."""
    assert check(replace(product_order(), flush="compared")).violations == set()
