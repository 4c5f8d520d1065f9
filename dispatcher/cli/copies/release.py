"""`hmem release`: the owner's commands for the releases on the day host."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from dispatcher.cli.arguments import Json, Yes, confirm
from dispatcher.releases import manage
from shared.errors import InvalidInput, ReleaseRefused
from shared.system.command import answer, application, print_json, start
from shared.text.format import counted, size_text, time_text
from shared.text.times import moment

app = application("The releases on this host: list, verify, rollback, prune.")

#: These commands write the releases' directory; run by root, they act as its owner.
WRITES = "hmem_memory_dir"

Run = Annotated[int | None, typer.Argument(min=0, help="Run of a release, as hmem release list shows it.")]


@app.command("list")
def list_(json: Json = False) -> None:
    """Every release: run, time, parent, turns, chats, size, and which one is current, previous, pinned or in use."""
    settings = start(directory=WRITES)
    found, wrong = manage.list_releases(settings.hmem_memory_dir)
    if json:
        print_json({"releases": [asdict(listed) for listed in found], "wrong": wrong})
        return
    for listed in found:
        chats = counted(listed.chats or 0, "chat")
        counts = "-" if listed.turns is None else f"{counted(listed.turns, 'turn')} of {chats}"
        parent = f"after {listed.parent}" if listed.parent is not None else ""
        at = moment(listed.created_at or None, settings.timezone)
        created = time_text(at, settings.timezone) if at else ""
        row = f"{listed.run:>6}  {created:16}  {parent:10}  {counts:28}  {size_text(listed.bytes):>9}  {'+'.join(listed.indexes) or '-':8}"
        typer.echo(f"{row}  {', '.join(listed.marks)}".rstrip())
    if not found:
        typer.echo("There is no release yet.")
    else:
        typer.echo(f"Times are in {settings.chat_timezone}.", err=True)
    if wrong:
        typer.echo(f"note: {wrong}", err=True)


@app.command()
def verify(
    run: Run = None,
    every: Annotated[bool, typer.Option("--all", help="Every release instead of one.")] = False,
    json: Json = False,
) -> None:
    """Re-hash every file of the current release, or of RUN. If one was changed, exits with code 16 and names it."""
    outcomes = []
    for release in manage.chosen(start(directory=WRITES).hmem_memory_dir, run, every=every):
        try:
            files, error = len(manage.verify_release(release).files) + 1, None
        except ReleaseRefused as refused:
            files, error = None, str(refused)
        outcomes.append({"run": int(release.name), "ok": error is None, "files": files, "error": error})
        if not json:
            state = f"is intact: {files} files" if error is None else "is damaged"
            typer.echo(f"Release {release.name} {state}.")
    if json:
        print_json(outcomes)
    if bad := [outcome for outcome in outcomes if not outcome["ok"]]:
        others = ", ".join(str(outcome["run"]) for outcome in bad[1:])
        raise ReleaseRefused(f"{bad[0]['error']}{f' Also damaged: {others}.' if others else ''}")


@app.command()
def rollback(
    run: Run = None,
    unpin: Annotated[bool, typer.Option("--unpin", help="End a rollback: the next night switches again.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Go back to the release before the current one, or to RUN, and stay there until `hmem release rollback --unpin`."""
    if unpin:
        if run is not None:
            raise InvalidInput("--unpin ends whatever rollback there is. Leave RUN out.")
        _unpin(json=json)
        return
    settings = start(directory=WRITES)
    confirm(manage.planned_rollback(settings.hmem_memory_dir, run), yes=yes)
    now, before = manage.roll_back(settings, run, lambda line: typer.echo(line, err=True))
    record = {"current": now, "before": before, "pinned": now, "note": manage.PINNED_NIGHTS}
    was = f" instead of {before}" if before is not None else ""
    answer(record, f"Release {now} is current{was}, and pinned. {manage.PINNED_NIGHTS}", json=json)


def _unpin(*, json: bool) -> None:
    lifted, run = manage.unpin(start(directory=WRITES).hmem_memory_dir)
    which = f"Release {run}" if run is not None else "A release that the damaged pin did not name"
    done = f"{which} is no longer pinned. The next night publishes as usual and switches."
    nothing = "No release is pinned, so nothing was changed."
    answer({"unpinned": lifted, "run": run}, done if lifted else nothing, json=json)


@app.command()
def prune(
    keep: Annotated[
        int | None, typer.Option(min=1, help="Number of newest releases to keep; default: RELEASES_KEPT.")
    ] = None,
    json: Json = False,
) -> None:
    """Remove old releases; never the current one, its parent, a pinned one, or one that a process reads."""
    settings = start(directory=WRITES)
    removed, left = manage.prune(settings.hmem_memory_dir, settings.releases_kept if keep is None else keep)
    record = {"removed": removed, "kept": [{"run": run, "why": why} for run, why in left.items()]}
    stays = [f"{run:>6} stays: {', '.join(why)}" for run, why in left.items()]
    answer(record, "\n".join([f"Removed: {', '.join(map(str, removed)) or 'none'}.", *stays]), json=json)
