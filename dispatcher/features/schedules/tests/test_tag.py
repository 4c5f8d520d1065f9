"""The tag REMIND as it is taught and read; what it does: test_commands.py."""

from __future__ import annotations

from dispatcher.memory.typed import tags


def test_the_prompt_teaches_the_tag_and_an_answer_may_have_it() -> None:
    lines = tags.instructions().splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("`[REMIND CODE: text | WHEN: "))
    assert lines[at - 1].startswith("`[DONE CODE: 7]`") and lines[at + 1] == ""
    answer = "Yes. [REMIND c0de: bin | WHEN: 2026-11-14T07:00 | EVERY: mon]"
    said = tags.Tag(1, "REMIND", "bin", {"WHEN": "2026-11-14T07:00", "EVERY": "mon"})
    assert tags.parse(answer, "c0de") == tags.Parsed("Yes.", (said,))
