"""What every step of `hmem init` works with; what it shows and asks: one line for each step, questions with a default."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from dispatcher.installation import environment
from dispatcher.installation.layout import Layout, give
from dispatcher.installation.settings_files import Files
from shared.config.settings import Settings, settings_from
from shared.errors import InstallationIncomplete, SettingsError

#: Seconds after which a step's line says how long it took.
LONG_SECONDS = 2.0
TRIES = 5
#: Characters of a step's name.
NAME_WIDTH = 14


class Terminal:
    """`unattended`: nobody is asked, every question takes its default."""

    def __init__(self, *, unattended: bool, console: Console | None = None) -> None:
        self.unattended = unattended
        self._console = console or Console(highlight=False, soft_wrap=True)

    def say(self, text: str = "") -> None:
        self._console.print(escape(text))

    def explain(self, text: str) -> None:
        """What a question is about; not said if nobody is asked."""
        if not self.unattended:
            self.say(textwrap.fill(text, self._console.width - 2, initial_indent="  ", subsequent_indent="  "))

    def title(self, text: str) -> None:
        self._console.print(f"\n[bold]{escape(text)}[/bold]")

    def done(self, name: str, outcome: str, seconds: float = 0.0) -> None:
        self._line("green", "✓", name, outcome + (f" ({seconds:.0f} s)" if seconds >= LONG_SECONDS else ""))

    def note(self, name: str, sentence: str) -> None:
        self._line("yellow", "!", name, sentence)

    def failed(self, name: str, sentence: str) -> None:
        self._line("red", "✗", name, sentence)

    def _line(self, colour: str, mark: str, name: str, sentence: str) -> None:
        """Wrapped on a terminal only: elsewhere a line stays one."""
        text = sentence
        if self._console.is_terminal:
            indent = " " * (NAME_WIDTH + 3)
            text = textwrap.fill(
                sentence, self._console.width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            ).lstrip()  # fmt: skip
        self._console.print(f"[{colour}]{mark}[/{colour}] {escape(name):{NAME_WIDTH}} {escape(text)}")

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """While something runs: what it is, and for how long already; on a terminal only."""
        columns = SpinnerColumn(), "{task.description}", TimeElapsedColumn()
        with Progress(
            *columns, console=self._console, transient=True, disable=not self._console.is_terminal
        ) as progress:
            progress.add_task(escape(what), total=None)
            yield

    def ask(
        self, question: str, default: str, check: Callable[[str], str], *, given: str = "", secret: bool = False
    ) -> str:
        """An answer that `check` accepts (it returns the value, or raises ValueError or SettingsError with a sentence). `given`, by the environment
        or a file, is not asked for. InstallationIncomplete if nobody is there to ask and there is no default."""
        value = given or (default if self.unattended else "")
        if self.unattended and not value:
            raise InstallationIncomplete(
                f"{question} is not given. Set it in the environment for --yes, or run hmem init on a terminal."
            )
        for _ in range(TRIES):
            prompt = f"  {question}" + (f" [{default}]" if default else "") + ": "
            try:
                return check(value or self._read(prompt, secret=secret) or default)
            except (ValueError, SettingsError) as error:
                if value:
                    shown = "" if secret else f" (it is {value!r})"
                    raise InstallationIncomplete(
                        f"{question}: {str(error).rstrip('.')}{shown}. Correct it, then run hmem init again."
                    ) from error
                self.say(f"  {error}")
        raise InstallationIncomplete(
            f"{question} was not understood {TRIES} times. Run hmem init again when you have it."
        )

    def confirm(self, question: str, *, default: bool = True) -> bool:
        """`default` unless somebody says otherwise."""
        if self.unattended:
            return default
        said = self._read(f"  {question} [{'Y/n' if default else 'y/N'}]: ").lower()
        return said not in ("n", "no") if default else said in ("y", "yes")

    def _read(self, prompt: str, *, secret: bool = False) -> str:
        try:
            return self._console.input(escape(prompt), password=secret and sys.stdin.isatty()).strip()
        except EOFError:
            raise InstallationIncomplete(
                "The terminal was closed before the last question. Run hmem init again."
            ) from None


def is_for_people() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and environment.variable("TERM") != "dumb"


@dataclass
class InstallationInProgress:
    """`values` are the settings to be, by name in capitals; `files`: what this run has read of them and written. `fresh`: nothing was created
    before; `changed`: a settings file was."""

    layout: Layout
    terminal: Terminal
    values: dict[str, str]
    own_redis: bool = True
    fresh: bool = True
    changed: bool = False
    as_user: bool = False  # root with --user
    files: Files = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def settings(self, **more: str) -> Settings:
        """The settings to be. SettingsError names a wrong one."""
        return settings_from({name.lower(): value for name, value in {**self.values, **more}.items()})

    def make_directory(self, path: Path, mode: int, owner: str | None = None, group: str | None = None) -> bool:
        """Create a directory with this owner; whether it was not there. It has its name when it has its owner, whatever ends this; one that was
        there stays as it is."""
        created, new = not path.is_dir(), path.with_name(f".{path.name}.new")
        try:
            if created:
                self._make_parents(path)
                new.mkdir(exist_ok=True)
                give(new, mode, owner, group)
                new.rename(path)
        except OSError as error:
            raise InstallationIncomplete(
                f"{path} cannot be created ({error.strerror}). Correct that, then run hmem init again."
            ) from error
        return created

    def _make_parents(self, path: Path) -> None:
        """The directories above, which every account may enter if there are accounts (our umask is 077)."""
        for above in reversed(path.parents):
            if not above.is_dir():
                above.mkdir()
                above.chmod(0o755 if self.layout.day_user else 0o700)
