"""Generate the pages of docs/ that follow from the code: commands, settings, Redis keys and exit codes.

scripts/docs          writes them
scripts/docs --check  reports the pages that are out of date, and exits with 1
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import typer.main
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from dispatcher.cli.main import hmem
from dispatcher.health.findings import Fault
from nightly.cli.main import app as hmem_night
from shared.config.settings import setting_fields, setting_meanings, setting_names
from shared.errors import exit_codes, explanations
from shared.wire.key_table import all_keys
from shared.wire.users import users

ROOT = Path(__file__).parent.parent
MADE = "<!-- Made by scripts/docs from {source}: do not edit. -->"


def page(title: str, source: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", MADE.format(source=source), *blocks]) + "\n"


def table(*rows: tuple[str, ...]) -> str:
    """Markdown; the first row is the head."""
    lines = [f"| {' | '.join(map(escaped, row))} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def escaped(cell: str) -> str:
    """A bar would end the cell, and `<name>` outside of code would be taken for HTML."""
    pieces = re.split(r"(`[^`]*`)", cell.replace("|", "\\|"))
    return "".join(piece if piece.startswith("`") else piece.replace("<", "&lt;") for piece in pieces)


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def commands() -> str:
    """Every command of both programs, with what it does."""
    blocks = [
        "Arguments and options: `COMMAND --help`. With `--json` a command prints one JSON document. A negative chat id needs `--` before it, or\n"
        "`--chat=-100`. [Exit codes](exit-codes.md). The scripts of the checkout: [CONTRIBUTING.md](../CONTRIBUTING.md#scripts).",
    ]
    for name, where in (("hmem", "of the day host"), ("hmem-night", "of the night host")):
        rows = [(f"`{path}`", summary(command.help)) for path, command in all_commands()[name]]
        blocks += [f"## Commands {where}", table(("command", "what it does"), *rows)]
    return page("Commands", "the typer apps in dispatcher/cli and nightly/cli", *blocks)


def all_commands() -> dict[str, list[tuple[str, Any]]]:
    """Of each program the commands that do something, with their full names."""
    night = typer.main.get_command(hmem_night)
    day = [found for name in sorted(hmem.commands) for found in leaves(hmem.loaded(name), f"hmem {name}")]
    return {"hmem": day, "hmem-night": list(leaves(night, "hmem-night"))}


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something and is not for programs alone, by its full name; groups are opened."""
    inner = getattr(command, "commands", None)
    if inner is None and not command.hidden:
        yield name, command
    for short, below in sorted((inner or {}).items()):
        yield from leaves(below, f"{name} {short}")


def summary(text: str | None) -> str:
    """The first sentence."""
    return marked(re.split(r"(?<=[.]) ", " ".join((text or "").split()))[0])


def marked(text: str) -> str:
    """The names of settings as code."""
    return re.sub(rf"\b({'|'.join(sorted(setting_names(), key=len, reverse=True))})\b(?![^`]*`)", r"`\1`", text)


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────────

FROM_ENVIRONMENT = (
    ("`HMEM_CONFIG`", "`/etc/hmem/hmem.toml`, or else `~/.config/hmem/hmem.toml`, if it exists", "the settings file"),
    ("`HMEM_CREDENTIALS`", "`owner.toml` (`hmem`) or `night.toml` "
     "(`hmem-night`) in `/etc/hmem/secrets/`, where that can be read",
     "a file of the same form for secrets; `fd:0`: standard input. `hmem forget` also reads `night.toml` next to it"),
)  # fmt: skip


def settings() -> str:
    """Every setting with its default, what values it takes, and its meaning."""
    rows = [
        (f"`{name.upper()}`", " ".join([shown_default(field), *kind(field)]), marked(setting_meanings()[name]))
        for name, field in setting_fields().items()
    ]
    return page(
        "Settings", "shared/config/ and the settings of each feature",
        "Read once, at the start: the environment first, then the credentials file, then the settings file. Both files are flat TOML\n"
        "([deploy/hmem.toml](../deploy/hmem.toml)). A file with an unknown name, or that others may write, is refused.",
        "From the environment alone:",
        table(("name", "default", "meaning"), *FROM_ENVIRONMENT),
        "From all three:",
        table(("name", "default (and what it may be)", "meaning"), *rows),
    )  # fmt: skip


def kind(field: FieldInfo) -> Iterator[str]:
    """What values it takes, where that does not go without saying."""
    types = [one for one in get_args(field.annotation) if one is not NoneType] or [field.annotation]
    bounds = {name: getattr(one, name) for one in field.metadata for name in ("ge", "gt", "le") if hasattr(one, name)}
    if get_origin(field.annotation) is Literal:
        yield f"({', '.join(f'`{value}`' for value in get_args(field.annotation))})"
    elif types[0] is SecretStr:
        yield "(secret)"
    elif "le" in bounds:
        least = f"{bounds['ge']:,} to" if "ge" in bounds else f"above {bounds['gt']:,}, at most"
        yield f"({least} {bounds['le']:,})"
    elif bounds:
        yield f"(above {bounds['gt']})" if "gt" in bounds else f"({bounds['ge']:g} or more)"


def shown_default(field: FieldInfo) -> str:
    if field.default is None:
        return "unset"
    if field.default == "":
        return "empty"
    text = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return f"`{text:g}`" if isinstance(text, float) else f"`{text}`"


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def redis_keys() -> str:
    """Every key and user."""
    rows = []
    for key in all_keys():
        expiry = f" ({marked(key.expiry)})" if key.expiry != "none" else ""
        rows.append((f"`{key.pattern}`", f"{key.type}: {marked(key.content)}{expiry}"))
    return page(
        "Redis keys and users", "shared/wire/keys.toml and shared/wire/users.toml",
        "The keys `hcli:mem:…` are ours; the others are shared with h-cli's programs.",
        table(("key", "content (expiry)"), *rows),
        "## Redis users",
        "In [deploy/redis-users.acl](../deploy/redis-users.acl) each part has a user with just the commands and keys it needs.\n"
        "`deploy/new-secrets` fills in fresh passwords. Nobody can log in as `default`, but it keeps its rights, because Redis replays its\n"
        "append-only file as that user. Without h-cli's programs, remove the lines of `hcli-bot` and `hcli-dispatcher`.",
        table(("user", "is"), *((f"`{user.name}`", user.what) for user in users())),
        "What each may do, and why: `shared/wire/users.toml`, and `keys.py` of each feature.",
        "### Vectors on Redis",
        "With `NIGHT_INDEXES=redis`, add to the users' lines what `scripts/redis_users.py --vectors` prints (Redis before 8 does not know these\n"
        "commands). The `CLIENT SETINFO` that newer versions log as refused in `ACL LOG` does no harm.",
    )  # fmt: skip


# ── exit codes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def told(fault: Fault) -> list[str]:
    """What it means, and what to do."""
    found = re.search(rf"^{fault.name}: (.*)\n((?:    .*\n?)+)", inspect.cleandoc(Fault.__doc__ or ""), re.MULTILINE)
    return [" ".join(part.split()) for part in found.groups()] if found else []


def codes() -> str:
    """Every exit code: what happened and what to do."""
    errors = [
        (str(code), f"`{exit_codes()[code]}`", *map(marked, texts)) for code, texts in sorted(explanations().items())
    ]
    faults = [(str(int(fault)), fault.name.lower().replace("_", " "), *map(marked, told(fault))) for fault in Fault]
    return page(
        "Exit codes", "shared/errors.py and dispatcher/health/findings.py",
        "0: done. 1: a bug in this program, with a traceback. 2: wrong usage. 130: Ctrl-C.",
        table(("code", "name", "what happened", "what to do"), *errors),
        "`hmem status` ends with 42 or 43 if no dispatcher answers, else with 21 if memory is stale; `hmem-night status` with 15 if it cannot\n"
        "write, else with 14 if a quick look at the archive finds damage. For cron and systemd, 75 is not a failure.",
        "## Codes of hmem doctor",
        "`hmem doctor` ends with the code of its first problem; warnings do not count. Beside the codes above it has these:",
        table(("code", "fault", "what it means", "what to do"), *faults),
    )  # fmt: skip


PAGES: dict[str, Callable[[], str]] = {
    "docs/commands.md": commands,
    "docs/settings.md": settings,
    "docs/redis-keys.md": redis_keys,
    "docs/exit-codes.md": codes,
}


def outdated(root: Path) -> list[str]:
    """Pages that differ from the code, or are missing."""
    return [
        name
        for name, make in PAGES.items()
        if not (root / name).is_file() or (root / name).read_text("utf-8") != make()
    ]


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        old = outdated(ROOT)
        for name in old:
            print(f"{name} is out of date. Run scripts/docs.", file=sys.stderr)
        raise SystemExit(bool(old))
    if sys.argv[1:]:
        raise SystemExit(__doc__)
    (ROOT / "docs").mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (ROOT / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
