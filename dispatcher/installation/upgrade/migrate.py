"""`python -m dispatcher.installation.upgrade.migrate`: the installed version takes over the formats of the day host. Run by the version before it."""

from __future__ import annotations

from contextlib import closing

import typer

from dispatcher.memory.store.database import Database
from shared.config.ownership import OURS
from shared.system.command import application, run_command, start
from shared.system.files import own_root
from shared.system.formats import claim

app = application()


@app.command()
def migrate() -> None:
    """Migrate the day store, and claim the state directory."""
    settings = start("dispatcher", logs=False)
    claim(own_root(settings.hmem_state_dir, OURS["hmem_state_dir"]), "hmem_state_dir")
    if settings.has_day_store:
        with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database, database.reading():
            typer.echo(f"The day store at {database.place} has the format of this version.")


if __name__ == "__main__":
    run_command(app)
