"""The text that carries memory to the model: a template, filled with fenced parts.

A part's fence is a hash of its text, so no text can contain its closing fence, and an unchanged part stays identical to the byte from
request to request (the provider's prompt cache relies on that). Stable parts come first. In addition, anything that looks like a fence, a
role or a heading is escaped: a model does not compare hashes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined

from shared.text.marks import harmless

_TEMPLATES = Environment(
    loader=PackageLoader("dispatcher.prompt", "."),
    undefined=StrictUndefined,
    autoescape=False,
    auto_reload=False,
    keep_trailing_newline=True,
)


@dataclass(frozen=True)
class PromptPart:
    """One named piece of memory, as it is injected."""

    name: str
    title: str
    text: str

    @cached_property
    def body(self) -> str:
        """The text between the fences."""
        return harmless(self.text)

    @cached_property
    def fence(self) -> str:
        return hashlib.sha256(self.body.encode("utf-8", "replace")).hexdigest()[:16]


def render(parts: list[PromptPart]) -> str:
    """The memory text; empty if there is none."""
    return _TEMPLATES.get_template("system.md.j2").render(parts=parts).strip()


def render_message(part: PromptPart | None, message: str, ending: str = "") -> str:
    """The message, with a fenced part and a closing line of ours ahead of it if given."""
    return _TEMPLATES.get_template("message.md.j2").render(part=part, message=message, ending=ending)


def fenced(tag: str, text: str) -> str:
    """A text that someone else wrote, in its own fence; none of its lines can look like one of ours."""
    part = PromptPart(tag, "", "\n".join(f"> {line}" for line in harmless(text).split("\n")))
    return f'<{tag} id="{part.fence}">\n{part.body}\n</{tag} id="{part.fence}">'
