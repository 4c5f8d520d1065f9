"""Generate the pages of docs/ that follow from the code: commands, settings, Redis keys and exit codes.

scripts/docs          writes them
scripts/docs --check  reports the pages that are out of date, and exits with 1
"""

from __future__ import annotations

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
from scripts import redis_users
from shared.config.settings import setting_fields, setting_names
from shared.errors import exit_codes, explanations
from shared.wire.key_table import all_keys
from shared.wire.users import users

ROOT = Path(__file__).parent.parent
MADE = "<!-- Made by scripts/docs from {source}. Do not edit: change the code, then run scripts/docs. -->"


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
        "Arguments and options: `--help` after the command. `--json` prints one JSON document on standard output in place of text. A chat id\n"
        "below zero needs `--` ahead of it, or `--chat=-100`. Each command ends with 0, or with one of the [exit codes](exit-codes.md).\n"
        "The scripts of the checkout: [CONTRIBUTING.md](../CONTRIBUTING.md#scripts).",
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
     "a file of the same form for secrets; `fd:0` is an open descriptor, read once and closed. `hmem forget` takes the secrets of the night that "
     "it starts from `night.toml` next to this file"),
)  # fmt: skip


def settings() -> str:
    """Every setting with its default, what values it takes, and its meaning."""
    rows = [
        (f"`{name.upper()}`", " ".join([shown_default(field), *kind(field)]), marked(field.description or ""))
        for name, field in setting_fields().items()
    ]
    return page(
        "Settings", "shared/config/ and the settings of each feature",
        "Read once at the start: from the environment, from the credentials file, from the settings file; what comes first wins. Both files are\n"
        "flat TOML ([deploy/hmem.toml](../deploy/hmem.toml)). An unknown name in a file is refused, and so is a file that others than its owner may\n"
        "write.",
        "Two names are read from the environment alone:",
        table(("name", "default", "meaning"), *FROM_ENVIRONMENT),
        "All others:",
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
        yield f"({bounds['ge']:,} to {bounds['le']:,})"
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
    """Every key; of those that other programs share also who writes and reads it."""
    shared, ours = [], []
    for key in all_keys():
        content = f"{key.type}: {marked(key.content)}"
        cells = (f"`{key.pattern}`", content, marked(key.expiry) if key.expiry != "none" else "")
        if key.pattern.startswith("hcli:mem:"):
            ours.append(cells)
        else:
            shared.append((*cells, redis_users.writers(key), redis_users.readers(key)))
    return page(
        "Redis keys and users", "shared/wire/keys.toml and shared/wire/users.toml",
        "These keys are shared with h-cli's programs. Writers (and those who delete) and readers are [Redis users](#redis-users); `owner` may read\n"
        "every key.",
        table(("key", "content", "expiry", "writer", "reader"), *shared),
        "These are ours. `hmem forget` reads all of `hcli:*`, and removes what it covers.",
        table(("key", "content", "expiry"), *ours),
        "## Redis users",
        "[deploy/redis-users.acl](../deploy/redis-users.acl) gives each part a user with the commands and keys that the part uses and no others; a\n"
        "test tries every command of Redis for every user. Parentheses in it mean: these commands on these keys (`%R~` only reading, `%W~` only\n"
        "writing). Nobody can log in as `default`, but it keeps every right: Redis replays its append-only file as that user. Redis refuses the\n"
        "file until `deploy/new-secrets` has filled in the hashes of fresh passwords. Where you have none of h-cli's programs, take the lines of\n"
        "`hcli-bot` and `hcli-dispatcher` out.",
        table(("user", "is"), *((f"`{user.name}`", user.what) for user in users())),
        "What each may do to which keys, and why, is in `shared/wire/users.toml`, and in the `keys.py` of each feature.",
        "### Vectors on Redis",
        "A Redis before 8 refuses a file that names the commands of vector sets, so they are not in it. With `NIGHT_INDEXES=redis` add to the\n"
        "users' lines what `scripts/redis_users.py --vectors` prints.",
        "Redis 7.2 and newer log a refused `CLIENT SETINFO` at each connection in `ACL LOG`. It does no harm.",
    )  # fmt: skip


# ── exit codes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def codes() -> str:
    """Every exit code: what happened and what to do."""
    errors = [
        (str(code), f"`{exit_codes()[code]}`", *map(marked, texts)) for code, texts in sorted(explanations().items())
    ]
    faults = [(str(int(fault)), fault.label, *map(marked, fault.texts)) for fault in Fault]
    return page(
        "Exit codes", "shared/errors.py and dispatcher/health/findings.py",
        "0 is done. 1 is a bug in this program, with a traceback (or `scripts/nightly.sh` without `.venv`). 2 is wrong usage. 130 is Ctrl-C.",
        table(("code", "name", "what happened", "what to do"), *errors),
        "`hmem status` ends with 42 or 43 when no dispatcher answers, else with 21 when memory is stale. `hmem-night status` ends with 15 when the\n"
        "night's directory cannot be written, else with 14 when a look at the archive (its newest 64 MiB, and the end of every other file) finds\n"
        "damage. For cron and systemd 75 is no failure.",
        "## Codes of hmem doctor",
        "`hmem doctor` ends with the code of its first problem, in the order of its lines; warnings and skipped checks do not count. It uses the\n"
        "codes above where one fits, and these where none does:",
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
