"""Run h-cli's bot, unchanged, against a Bot API at another address. Started with the Python of .venv/interop.

HCLI_DIR is its directory, BOT_API_URL the address; everything else it reads from the environment by itself.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    directory = Path(os.environ["HCLI_DIR"])
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(directory / "shared"))
    builder: Any = importlib.import_module("telegram.ext").ApplicationBuilder
    token = builder.token
    builder.token = lambda self, given: token(self, given).base_url(f"{os.environ['BOT_API_URL']}/bot")
    runpy.run_path(str(directory / "telegram-bot" / "bot.py"), run_name="__main__")


if __name__ == "__main__":
    main()
