"""Which settings the night host gets: those on which both must agree, and those that are the night's own."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from dispatcher.installation.init.context import InitContext
from dispatcher.installation.init.steps import ask_hmem
from shared.config.settings import Settings
from shared.config.values import names_a_host
from shared.errors import InstallationIncomplete
from shared.system.keys.sealing import keyring_path

#: Read by the night, and the same on both hosts or meant for the night alone.
_COPIED = (
    "CHAT_TIMEZONE", "NIGHT_CRON", "EMBEDDER", "EMBED_MODEL", "NIGHT_INDEXES", "INDEX_NAME", "SUMMARY_MODEL", "NOTES_MODEL", "NOTES_MINUTES",
    "QDRANT_API_KEY", "PUBLISH_WAIT", "SCRUB_DAYS", "STEP_TIMEOUT", "RELEASES_KEPT", "LOG_LEVEL", "LOG_JSON", "OLLAMA_TIMEOUT",
)  # fmt: skip
#: Addresses, which the night host reaches only if they name a host.
_ADDRESSES = ("QDRANT_URL", "REDIS_VECTORS_URL", "PGVECTOR_URL", "DAY_STORE_URL")
#: Of the Ollama that each host asks: the night host may have one of its own.
_OLLAMA = "OLLAMA_URL"
#: The encryption key, in a directory of its own beside the night's.
KEY_FOLDER, KEY_FILE = "hmem-keys", "encrypt.key"
_HERE = ("127.0.0.1", "localhost", "::1", None)


def for_night_host(installation: InitContext) -> tuple[dict[str, str], list[str]]:
    """The values, and what the owner has to know about those that could not be given."""
    values, notes = installation.values, []
    given = {name: values[name] for name in _COPIED if values.get(name)}
    settings = installation.settings()
    given |= {"CHAT_TIMEZONE": settings.chat_timezone, "NIGHT_CRON": settings.night_cron}
    for name in (*_ADDRESSES, _OLLAMA):
        if not values.get(name):
            continue
        if urlsplit(values[name].split(",")[0]).hostname not in _HERE:
            given[name] = values[name]
        elif name != _OLLAMA and name != "DAY_STORE_URL":
            notes.append(
                f"{name} names this host alone, so the night host has no such setting. Set one that both reach."
            )
    if mirror := values.get("ARCHIVE_MIRROR"):
        if names_a_host(mirror):
            given["ARCHIVE_MIRROR"] = mirror
        else:
            notes.append(
                f"ARCHIVE_MIRROR is {mirror} on this host, which is no mirror of an archive elsewhere: set one on the night host."
            )
    given["OWNER_PUBLIC_KEY"] = _owner_key(installation)
    return given, notes


def encryption_files(settings: Settings) -> dict[str, str]:
    """Name → content: the encryption key and the night's keyring; {} without encryption.

    Later keys come through Redis, but the archive is verified there before Redis is reached.
    """
    key = settings.key_file_of_night
    if key is None:
        return {}
    ring = keyring_path(key, "night")
    try:
        files = {KEY_FILE: key.read_text(encoding="ascii")}
        if ring.exists():
            files[keyring_path(Path(KEY_FILE), "night").name] = ring.read_text(encoding="utf-8")
    except OSError as error:
        raise InstallationIncomplete(
            f"{error.filename} cannot be read: {error.strerror}. It is needed on the night host, too. Correct it (hmem doctor), then run the same "
            "command again."
        ) from error
    return files


def remove_keyring_here(settings: Settings) -> None:
    """No night runs here any more, so nobody would destroy the keys of forgotten chats in its keyring. The dispatcher's has all that it needs."""
    if key := settings.key_file_of_night:
        keyring_path(key, "night").unlink(missing_ok=True)


def _owner_key(installation: InitContext) -> str:
    """Without it the night there would only hide what `hmem forget` erases."""
    public = ask_hmem(installation, "owner-key", "--json").get("public")
    if not public:
        raise InstallationIncomplete(
            "hmem owner-key does not work on this host, and says why. Correct that, then run the same command again."
        )
    return str(public)
