"""Find turns of phrase that an English reader stumbles over, in documents and in the product's source: python -m scripts.wording"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What is wrong, and what to write instead. A blank is any white space, also with the mark of a comment.
PATTERNS = {
    "that (?:is|are) no(?! longer| more)": "isn't a, aren't",
    "those that": "the ones that, or name them",
    "is said": "say who says what",
    "[Rr]un again, it": "Safe to rerun: it …",
}
SEARCHED = (
    "*.md",
    "docs/**/*.md",
    "deploy/*.md",
    "systemd/*.md",
    *(f"{room}/**/*" for room in ("dispatcher", "nightly", "shared")),
)
SUFFIXES = (".md", ".py", ".toml", ".html", ".lua")
#: Tests name what they prove; models and other people's scripts are not ours to word; a changelog tells what was.
LEFT_OUT = re.compile(r"/tests/|/models/|/static/|^CHANGELOG|words\.toml|phrases\.toml")


def files() -> Iterator[Path]:
    for pattern in SEARCHED:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and path.suffix in SUFFIXES and not LEFT_OUT.search(name):
                yield path


def found() -> Iterator[str]:
    """file:line: what stands there, and what to write instead."""
    for path in files():
        text = path.read_text(encoding="utf-8")
        for pattern, instead in PATTERNS.items():
            for match in re.finditer(rf"\b{pattern}\b".replace(" ", r"\s+(?:#:?\s+)?"), text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(ROOT)}:{line}: {' '.join(match[0].split())!r}: {instead}"


if __name__ == "__main__":
    lines = [*found()]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.exit(bool(lines))
