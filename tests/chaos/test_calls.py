"""That the tracer fails the call it is given, and no other."""

from __future__ import annotations

import pytest

from tests.chaos.checks.damage.calls import Failure, traced_night
from tests.chaos.harness.oracle import Shadow, judge
from tests.support.world import World

pytestmark = pytest.mark.chaos


def test_a_call_fails_where_it_should_and_no_further(light: World) -> None:
    shadow = Shadow()
    shadow.say(light, "t1", "the heron stood at the pond")
    first = traced_night(light, Failure("fsync", "EIO", 1))
    assert (first.code, first.trace.failed >= 1) == (15, True), first.output
    assert judge(light, shadow).clean
    clean = traced_night(light, Failure("fsync", "EIO", 10_000))
    assert (clean.code, clean.trace.failed) == (0, 0), clean.output
    assert clean.trace.calls["fsync"] > 20
    assert judge(light, shadow, at_rest=True).clean
