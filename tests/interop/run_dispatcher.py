"""Run h-cli's dispatcher, unchanged, with its constants pointed elsewhere. Started with the Python of .venv/interop.

HCLI_DIR is its directory; SESSION_CHUNK_DIR, HEARTBEAT_FILE and CLAUDE_SECONDS (its limit of an answer) stand in for what it has as constants.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    directory = Path(os.environ["HCLI_DIR"])
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(directory / "shared"))
    spec = importlib.util.spec_from_file_location("hcli_dispatcher", directory / "claude-code" / "dispatcher.py")
    assert spec
    assert spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def open_elsewhere(path: Any, *arguments: Any, **more: Any) -> Any:
        place = os.environ["HEARTBEAT_FILE"] if path == "/tmp/heartbeat" else path
        return open(place, *arguments, **more)  # noqa: PTH123 - what that program calls

    module.open = open_elsewhere
    module.SESSION_CHUNK_DIR = os.environ["SESSION_CHUNK_DIR"]
    module._run_claude.__defaults__ = (int(os.environ["CLAUDE_SECONDS"]),)
    module.main()


if __name__ == "__main__":
    main()
