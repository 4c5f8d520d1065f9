"""What this machine has that `hmem init` can offer: its time zone, another disk for the mirror, what can embed."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dispatcher.installation import environment
from shared.config import values
from shared.config.settings import Settings
from shared.embedding.known_models import KNOWN_MODELS
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError

#: Seconds that Ollama may take to say what it has.
OLLAMA_SECONDS = 3.0
#: A disk with less room is not offered for the mirror. Bytes.
LEAST_ROOM = 1 << 30
_NOT_FOR_DATA = ("/boot", "/efi", "/snap", "/run", "/proc", "/sys", "/dev", "/tmp", "/var/tmp")  # noqa: S108 - not used
#: What the units do not see (ProtectHome=).
_HOMES = ("/home", "/root")


def time_zone() -> str:
    """This system's zone by its IANA name; UTC if it has none."""
    named = [environment.variable("TZ").lstrip(":"), _of_file(Path("/etc/timezone")), _of_link(Path("/etc/localtime"))]
    for name in filter(None, named):
        try:
            return values.known_zone(name)
        except ValueError:
            continue
    return "UTC"


def _of_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _of_link(path: Path) -> str:
    target = os.path.realpath(path)
    return target.rpartition("/zoneinfo/")[2] if "/zoneinfo/" in target else ""


def other_disk(
    settings: Settings, mounts: Path = Path("/proc/self/mounts"), *, for_accounts: bool = False
) -> Path | None:
    """Where another disk than that of the archive is mounted and can be written, the largest one; None if there is none.

    `for_accounts`: also by the accounts of an installation, which come through no directory that is closed to others.
    """
    own = _device(settings.hmem_night_dir)
    found = []
    for line in _of_file(mounts).splitlines():
        device, place, kind, options = line.split()[:4]
        path = Path(place.replace("\\040", " "))
        if (
            not device.startswith("/dev/")
            or kind == "squashfs"
            or "ro" in options.split(",")
            or any(path.is_relative_to(one) for one in _NOT_FOR_DATA)
            or (for_accounts and not _open_to_all(path))
        ):
            continue
        if path.is_dir() and os.access(path, os.W_OK) and _device(path) not in (own, _device(Path("/"))):
            found.append((shutil.disk_usage(path).free, path))
    return max((one for one in found if one[0] >= LEAST_ROOM), default=(0, None))[1]


def _open_to_all(path: Path) -> bool:
    in_a_home = any(path.is_relative_to(one) for one in _HOMES)
    return not in_a_home and path.is_dir() and all(one.stat().st_mode & 0o001 for one in (path, *path.parents))


def _device(path: Path) -> int:
    return next(one for one in (path, *path.parents) if one.exists()).stat().st_dev


@dataclass(frozen=True)
class EmbedderChoice:
    """`name` is what the owner types, `values` the settings that it stands for."""

    name: str
    sentence: str
    values: dict[str, str]


def embedders(settings: Settings) -> list[EmbedderChoice]:
    """The model that comes with the program first, then what an Ollama server here has of the known models."""
    shipped = "runs here without a GPU, in any language"
    choices = [EmbedderChoice("shipped", shipped, {"EMBEDDER": "local"})]
    pulled, gpu = _pulled(settings), ", with the GPU of this machine" if has_gpu() else ""
    for model in KNOWN_MODELS:
        if name := next((one for one in pulled if model.is_called(one, "ollama")), None):
            values = {"EMBEDDER": "ollama", "EMBED_MODEL": name}
            choices.append(EmbedderChoice(name, f"from the Ollama at {settings.ollama_url}{gpu}", values))
    return choices


def _pulled(settings: Settings) -> list[str]:
    """The names of Ollama's models; none if it is not installed or does not answer soon."""
    try:
        with closing(open_ollama(settings.model_copy(update={"ollama_timeout": OLLAMA_SECONDS}))) as server:
            return list(server.models(attempts=1))
    except EmbeddingError:
        return []


def has_gpu() -> bool:
    return any(Path(place).exists() for place in ("/dev/nvidia0", "/dev/kfd"))
