"""Files that were uploaded for an import: in HMEM_STATE_DIR/web-uploads until it is done, something is forgotten, or a day has passed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from dispatcher.chat_data.forget.layers.files import UPLOADS
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.files import make_dir

_ID = re.compile(r"[0-9a-f]{32}")


def store_upload(settings: Settings, content: BinaryIO) -> str:
    """Write it in pieces; returns its id. OSError if it does not fit on the disk."""
    folder = make_dir(settings.hmem_state_dir / UPLOADS)
    name = uuid4().hex
    try:
        with (folder / name).open("xb") as file:
            shutil.copyfileobj(content, file)
    except BaseException:
        (folder / name).unlink(missing_ok=True)
        raise
    return name


def uploaded(settings: Settings, name: str) -> Path:
    """InvalidInput if it is not there."""
    path = settings.hmem_state_dir / UPLOADS / name
    if not _ID.fullmatch(name) or not path.is_file():
        raise InvalidInput("The uploaded file is no longer there. Upload it again.")
    return path
