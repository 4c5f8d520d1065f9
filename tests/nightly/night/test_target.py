"""A day host over ssh: what it answers is not taken for more than it is."""

from __future__ import annotations

import shlex
import sys

import orjson
import pytest

from nightly.night.target import Target, ssh_target, transfer
from shared.errors import PublishFailed
from tests.support.night.receiving import older_manifest
from tests.support.world import World


def target(light: World, answer: bytes) -> Target:
    """A day host that gives this answer to every verb."""
    said = light.root / "answer"
    said.write_bytes(answer)
    command = shlex.join([sys.executable, "-c", f"print(open({str(said)!r}).read())"])
    return ssh_target(light.settings(release_command=command), "day:/memory")


@pytest.mark.parametrize("answer", [b"Welcome to the day host!", b"[]"])
def test_what_is_no_answer_of_ours_is_refused(light: World, answer: bytes) -> None:
    with pytest.raises(PublishFailed, match="unexpected answer to 'begin'"):
        target(light, answer).current()


def test_a_current_release_of_an_older_format_there_is_none_to_continue(light: World) -> None:
    light.say("t1", "the boiler broke")
    light.night()
    record = orjson.loads(older_manifest((light.memory_dir / "current").resolve()))
    assert target(light, orjson.dumps({"current": record, "newest": 3})).standing() == (None, 3)


def test_why_a_transfer_failed_is_not_what_ssh_warned_of(light: World) -> None:
    release, rsh = light.root / "release", light.root / "rsh"
    release.mkdir()
    (release / "manifest.json").write_text("{}")
    rsh.write_text(
        "#!/bin/sh\necho 'Warning: Permanently added host' >&2\n"
        "echo '** WARNING: connection is not using a post-quantum key exchange algorithm.' >&2\nshift\nexec \"$@\"\n"
    )
    rsh.chmod(0o755)
    with pytest.raises(PublishFailed, match=r"ended with code 3: rsync: .*No such file or directory"):
        transfer(release, ["manifest.json"], f"far:{light.root}/no/such/place", str(rsh))
