"""What `hmem init` has created on this host, in the order in which it did: so that it can be undone, and is not done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from shared.errors import InstallationIncomplete
from shared.system.files import write_atomic

FORMAT = 1


class Created(NamedTuple):
    """`what`: directory, file, account, package, login, greeted, linger or settings (a hash); `name`: path or name."""

    what: str
    name: str


class InstallationJournal:
    """A JSON file beside the settings. InstallationIncomplete if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.created = [Created(*one) for one in _read(path).get("created", [])]

    @property
    def is_empty(self) -> bool:
        return not self.created

    def add(self, what: str, name: str | Path) -> None:
        """Note a file before it is written (one that is noted and not there does no harm), a directory when it is there."""
        if (one := Created(what, str(name))) not in self.created:
            self.created.append(one)
            self._write()

    def remember(self, what: str, name: str) -> None:
        """The only one of its kind: it replaces an earlier one."""
        for one in [one for one in self.created if one.what == what and one.name != name]:
            self.remove(one)
        self.add(what, name)

    def remove(self, one: Created) -> None:
        self.created.remove(one)
        self._write()

    def names(self, what: str) -> list[str]:
        return [one.name for one in self.created if one.what == what]

    def _write(self) -> None:
        content = json.dumps({"format": FORMAT, "created": self.created}, indent=1)
        write_atomic(self._path, content.encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        if found["format"] != FORMAT:
            raise InstallationIncomplete(
                f"{path} was written by a newer version (format {found['format']}). Update this program, then run hmem init again."
            )
    except FileNotFoundError:
        return {}
    except NotADirectoryError as error:
        raise InstallationIncomplete(
            f"{path.parent} is not a directory, so nothing can be created in it. Move it away, then run hmem init again."
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InstallationIncomplete(
            f"{path}, the list of what hmem init created, cannot be read ({error}). Correct it, or remove it: then --undo knows nothing of it."
        ) from error
    return dict(found)
