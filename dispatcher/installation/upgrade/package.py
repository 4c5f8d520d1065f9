"""The installed package as a wheel again, from the files that its record lists: what an upgrade goes back to without a network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from shared.config.packages import PACKAGES, missing_package
from shared.errors import UpgradeFailed
from shared.system.files import fsync_dir

NAME = "hcli-memory"
#: Written by the installer, not part of a wheel.
_OF_THE_INSTALLER = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD")


def installed_version(distribution_of: Distribution | None = None) -> str:
    """UpgradeFailed if the package has no record of its version."""
    try:
        return (distribution_of or distribution(NAME)).version
    except PackageNotFoundError as error:
        raise UpgradeFailed(
            f"Python has no record of {NAME}, so this installation cannot be upgraded. Install it anew (docs/install.md)."
        ) from error


def parts_there() -> list[str]:
    """The optional parts whose packages are all installed: the new version gets them, too."""
    return sorted(part for part in PACKAGES if missing_package(part) is None)


def keep_wheel(folder: Path, found: Distribution | None = None) -> Path:
    """Write the wheel of the installed package into `folder`, durable; its path. UpgradeFailed if files of the package are missing."""
    found = found or distribution(NAME)
    files = [path for path in found.files or [] if _belongs(str(path))]
    info = next((str(path.parent) for path in files if path.name == "METADATA"), None)
    tag = _tag(found)
    if info is None:
        raise UpgradeFailed(
            f"The record of {NAME} lists no files, so it cannot be kept. Install it anew (docs/install.md)."
        )
    wheel = folder / f"{NAME.replace('-', '_')}-{found.version}-{tag}.whl"
    temporary = folder / f".{wheel.name}.tmp"
    record = []
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in files:
                content = Path(str(path.locate())).read_bytes()
                packed.writestr(str(path), content)
                record.append(f"{path},sha256={_digest(content)},{len(content)}")
            packed.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    except FileNotFoundError as error:
        temporary.unlink(missing_ok=True)
        raise UpgradeFailed(
            f"{error.filename} of the installed {NAME} is missing, so there would be no way back. Install {found.version} anew, then upgrade."
        ) from error
    with temporary.open("rb") as handle:
        import os

        os.fsync(handle.fileno())
    temporary.replace(wheel)
    fsync_dir(folder)
    return wheel


def _belongs(path: str) -> bool:
    inside = not path.startswith(("/", "../")) and not path.endswith(".pyc")
    return inside and not (".dist-info/" in path and path.rpartition("/")[2] in _OF_THE_INSTALLER)


def _tag(found: Distribution) -> str:
    for line in (found.read_text("WHEEL") or "").splitlines():
        if line.startswith("Tag:"):
            return line.partition(":")[2].strip()
    return "py3-none-any"


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
