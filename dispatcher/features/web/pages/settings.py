"""*Settings*: by subject first what people touch, the rest folded, secrets masked; what no link should open is only shown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, NotShown, go_to
from shared.config import sources
from shared.config.feature_settings import SUBJECTS, Touched
from shared.config.ownership import user_name
from shared.config.settings import Settings, problems_of, setting_fields, setting_meanings, setting_names, settings_from
from shared.errors import InvalidInput
from shared.system.files import Modes, locked_dir, write_atomic

MASKED = "•••••• (set, not shown)"
VALUE_CHARACTERS = 200


@dataclass(frozen=True)
class SettingRow:
    """A setting as the file has it now. `given`: as it is written somewhere, "" if nowhere, by which a change made elsewhere is known; `choices`: the
    only values that it may have; `waits`: the page runs with another value still."""

    name: str
    field: FieldInfo
    subject: str
    value: str
    given: str
    default: str
    where: str
    is_open: bool
    waits: bool

    @property
    def meaning(self) -> str:
        return setting_meanings().get(self.name.lower(), "")

    @property
    def choices(self) -> tuple[str, ...]:
        kind = self.field.annotation
        return ("true", "false") if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def bounds(self) -> dict[str, Any]:
        """`ge`, `gt` and `le` of a number, as far as there are any."""
        kinds = ("ge", "gt", "le")
        return {kind: getattr(one, kind) for one in self.field.metadata for kind in kinds if hasattr(one, kind)}


def _touched(field: FieldInfo) -> Touched | None:
    return next((one for one in field.metadata if isinstance(one, Touched)), None)


def editable() -> set[str]:
    """What the page may write, in a file that is its user's. Never a secret, whichever feature marks it."""
    return {
        name.upper()
        for name, field in setting_fields().items()
        if (touched := _touched(field)) and not touched.by_hand and field.repr
        and SecretStr not in (field.annotation, *get_args(field.annotation))
    }  # fmt: skip


def page(asked: Asked, problem: str = "", typed: tuple[str, str] = ("", "")) -> Response:
    """`typed`: name and value of a form that was refused for the problem."""
    file = sources.settings_file()
    given = sources.given_values(setting_names(), file)
    closed = _why_closed(file)
    now = asked.settings  # those of the page, while somebody has written something invalid
    if not (invalid := problems_of(given)):
        now = settings_from(given)  # what programs get that start now
    elif not problem:
        problem = f"No program starts with these settings: {invalid}. Correct it in {file}, or here."
    may_write = closed is None and not asked.session.grant.read_only
    rows = list(_rows(asked.settings, now, given, may_write))
    subjects = filter(None, dict.fromkeys([*SUBJECTS, *(row.subject for row in rows)]))  # a feature's own come last
    made = asked.page(
        "settings.html", "Settings",
        first={subject: [row for row in rows if row.subject == subject] for subject in subjects},
        rest=sorted((row for row in rows if not row.subject), key=lambda row: row.name),
        file=file, closed=closed, problem=problem, typed=typed,
    )  # fmt: skip
    made.status_code = 400 if typed[0] else 200
    return made


def _rows(running: Settings, now: Settings, given: Mapping[str, Any], may_write: bool) -> Iterator[SettingRow]:
    where, secret, open_ = sources.origins(setting_names()), set(sources.secrets_of(now.every())), editable()
    for (lower, field, value), (_, _, used) in zip(now.every(), running.every(), strict=True):
        name = lower.upper()
        place = where.get(name, "default")
        shown = MASKED if (name in secret or not field.repr) and value else _shown(value)
        # What comes before the file is not changed here.
        is_open = may_write and name in open_ and place in ("default", "file")
        subject = touched.subject if (touched := _touched(field)) else ""
        written = _shown(given.get(lower)) if is_open else ""
        yield SettingRow(
            name, field, subject, shown, written, _shown(field.default), place, is_open, waits=value != used
        )


def save(asked: Asked) -> Response:
    """One value into the settings file, if the program accepts all of them with it, and the file still has the one that was shown."""
    name, value, file = asked.value("name"), asked.value("value").strip(), sources.settings_file()
    if name not in editable():
        raise NotShown
    if file is None or (closed := _why_closed(file)):
        raise InvalidInput(closed if file else NO_FILE)
    if sources.origins(setting_names()).get(name, "file") != "file":
        raise InvalidInput(
            f"{name} is set in the environment or the credentials, which come before the file. Change it there."
        )
    if len(value) > VALUE_CHARACTERS or not value.isprintable():
        raise InvalidInput(f"The value of {name} is too long, or has characters that cannot be seen. Correct it.")
    file = file.resolve()  # a link stays one
    with locked_dir(file.parent):  # two at once would lose one
        given = sources.given_values(setting_names(), file)
        if asked.value("was") != (now := _shown(given.get(name.lower()))):
            become = (now or "empty") if name.lower() in given else "the default"
            changed = f"{name} has become {become} since this page was loaded: in another browser, or in {file}."
            return page(asked, f"Nothing was changed. {changed} Look at both, then save again.", (name, value))
        if wrong := problems_of(given | {name.lower(): value}):
            return page(asked, f"Nothing was changed. {wrong}.", (name, value))
        text, found = sources.with_values(file.read_text(encoding="utf-8"), {name: value}, file), file.stat()
        write_atomic(file, text.encode(), Modes(found.st_mode & 0o777, group=found.st_gid))
    asked.session.said = f"{name} is written. The programs take it when they are started again: hmem init does that."
    return go_to(f"/settings#{name}")


NO_FILE = "There is no settings file yet: hmem init writes one."


def _why_closed(file: Path | None) -> str | None:
    """Why this page may not write the file, and what to do."""
    if file is None or not file.is_file():
        return NO_FILE
    owner, me = user_name(file.stat().st_uid), user_name(os.geteuid())
    if owner != me:  # another's file would become ours
        return (
            f"{file} is a file of {owner}, and this page runs as {me}. Change it there as {owner}, then run hmem init."
        )
    if not os.access(file.resolve().parent, os.W_OK):
        return f"{me} may not write into {file.resolve().parent}. Change {file} there, then run hmem init."
    return None


def _shown(value: Any) -> str:
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text.removesuffix(".0") if isinstance(value, float) else text
