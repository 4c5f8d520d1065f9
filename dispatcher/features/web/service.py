"""The page as a service of an installation: the questions of `hmem init`, its unit, its password, and whether it answers."""

from __future__ import annotations

import http.client
import os
import sys
from contextlib import closing
from importlib import resources
from pathlib import Path

import typer

from dispatcher.features.web.requests.guard import HEADERS
from dispatcher.features.web.settings import DEFAULT_ADDRESS, WebSettings
from dispatcher.health.findings import Finding, Setup, ok, warning
from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.layout import BINARIES, Service, layout_here
from dispatcher.installation.services.by_hand import ServiceManager, services_of
from dispatcher.installation.settings_files import write_values
from shared.config import credentials
from shared.config.ownership import user_name
from shared.config.settings import Settings, load_settings
from shared.config.sources import is_of_init, settings_file
from shared.config.values import listen_address
from shared.errors import InstallationIncomplete, InvalidInput, SettingsError

NAME = "web"
#: Seconds that the page has to answer the doctor.
ANSWER_SECONDS = 5.0


def page_service(settings: Settings) -> Service | None:
    if not settings.of(WebSettings).web_service:
        return None
    unit = resources.files("dispatcher.features.web") / "units" / "hmem-web.service"
    # What somebody started on the page goes on when it is stopped.
    return Service(NAME, "hcli-memory page", (str(BINARIES / "hmem"), "web"), kill_mode="process", unit=unit)


def ask_for_service(installation: InstallationInProgress) -> None:
    terminal, values = installation.terminal, installation.values
    terminal.explain(
        "You can have a page that shows what is remembered (hmem web). It can run all the time, on this host alone."
    )
    if not values.get("WEB_SERVICE") and not terminal.confirm("Keep the page running?", default=False):
        return
    values.setdefault("WEB_SERVICE", DEFAULT_ADDRESS)
    if not values.get("WEB_PASSWORD") and not terminal.unattended:
        _ask_for_password(installation)
    by = "its password" if values.get("WEB_PASSWORD") else "the link in its log (hmem web --password sets a password)"
    installation.notes.append(f"Your page is http://{values['WEB_SERVICE']}, opened by {by}.")


def _ask_for_password(installation: InstallationInProgress) -> None:
    from dispatcher.features.web.requests.password import hashed, is_right

    def checked(answer: str) -> str:
        try:
            return answer if answer == "none" else hashed(answer)
        except InvalidInput as error:
            raise ValueError(str(error)) from error

    def same(answer: str) -> str:
        if not is_right(first, answer):
            raise ValueError("The two passwords differ. Write the first one again")
        return first

    first = installation.terminal.ask("Its password (none: by a link)", "none", checked, secret=True)
    if first != "none":
        installation.values["WEB_PASSWORD"] = installation.terminal.ask("The same again", "", same, secret=True)


def set_password() -> None:
    """`hmem web --password`. Before a change of user: the file may be root's alone."""
    from dispatcher.features.web.requests.password import hashed

    file = _password_file()
    if not sys.stdin.isatty():
        raise InvalidInput(
            "hmem web --password asks on a terminal, so that the password is seen by nobody. Run it on one."
        )
    manager = _manager_of_page()  # before anything is written: no password changes without the sessions of the old one
    hash_of_it = hashed(typer.prompt("New password", hide_input=True, confirmation_prompt="The same again"))
    write_values(file, {"WEB_PASSWORD": hash_of_it}, 0o600)
    said = "A running page uses it after its next restart, which also ends the sessions of the old password."
    if manager:
        try:
            manager.restart([NAME])
        except InstallationIncomplete as error:
            raise InstallationIncomplete(
                f"The hash of the password is in {file}, but a page that still runs goes on with the old one. {error}"
            ) from error
        said = "The page was restarted; the sessions of the old password have ended."
    typer.echo(f"The hash of the password is in {file}. {said}")


def _manager_of_page() -> ServiceManager | None:
    """What keeps the page of this installation running, if anything does."""
    if not ((own := settings_file()) and is_of_init(own)):
        return None
    try:
        layout = layout_here()
    except InstallationIncomplete:  # root's own, without systemd: its owner starts the programs
        return None
    manager = services_of(layout, load_settings())
    return manager if manager.is_installed() and NAME in [one.name for one in manager.programs] else None


def _password_file() -> Path:
    """The owner's file of secrets, or the settings file where that is one user's own."""
    if "WEB_PASSWORD" in credentials.variables_set(["WEB_PASSWORD"]):
        raise InvalidInput("WEB_PASSWORD is set in the environment, which comes before any file. Unset it there first.")
    place = credentials.places()[-1]
    if place.is_dir():
        if os.geteuid() != place.stat().st_uid:
            raise InvalidInput(
                f"The secrets of this host are in {place}. Run hmem web --password as their owner (sudo)."
            )
        return place / "owner.toml"
    file = place if place.exists() else settings_file()
    if file is None or not file.exists():
        raise SettingsError("There is no settings file for the password yet. Run hmem init first, or set HMEM_CONFIG.")
    if file.stat().st_mode & 0o077:
        raise SettingsError(
            f"Others may read {file}, so no password belongs there. Name a file of secrets by HMEM_CREDENTIALS, or chmod 600 this one."
        )
    if file.stat().st_uid != os.geteuid():  # it would become ours, and its owner could not read it
        owner = user_name(file.stat().st_uid)
        raise InvalidInput(f"{file} is a file of {owner}. Run hmem web --password as {owner}.")
    return file.resolve()


def check_page(setup: Setup) -> Finding:
    """The page that `hmem init` keeps running answers."""
    written = setup.settings.of(WebSettings).web_service
    if not written:
        return ok("No service keeps the page running (WEB_SERVICE); hmem web starts it.")
    host, port = listen_address(written)
    why = "another program has its port"
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)) as connection:
            connection.request("GET", "/static/icon.svg")
            if connection.getresponse().getheader("Content-Security-Policy") == HEADERS["Content-Security-Policy"]:
                return ok(f"The page answers at {written}.")
    except OSError as error:
        why = str(error.strerror or error)
    except http.client.HTTPException:
        pass  # what answers is no page at all
    return warning(
        f"The page should run at {written} (WEB_SERVICE), and does not answer there: {why}.",
        "hmem init starts it again, or says why not; its log: journalctl -u hmem-web. To do without it, unset WEB_SERVICE, then run hmem init.",
    )
