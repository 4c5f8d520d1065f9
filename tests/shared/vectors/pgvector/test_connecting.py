"""Where the vectors are, what the server must have, and what happens while it does not answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, SettingsError
from shared.vectors import aliases, on_server
from shared.vectors.base import Corpus
from shared.vectors.pgvector import index as pgvector_index
from shared.vectors.pgvector import server as pgvector_server
from shared.vectors.pgvector.index import PgvectorBuilder
from shared.vectors.pgvector.server import connected
from tests.support.machine import free_port
from tests.support.night.index_world import SAID, MadeUp, corpus_of, ids, make_release, opened
from tests.support.stores import PostgreSQL, postgresql_server

if TYPE_CHECKING:
    from shared.vectors.pgvector.server import Connection


def test_without_a_setting_of_its_own_it_is_in_the_database_of_the_day_store(server: PostgreSQL) -> None:
    """However that URL is written; the tables of neither are in the way of the other's."""
    url = server.database()
    for written in (url, url.replace("postgresql://", "postgresql+psycopg://"), url.replace("postgresql", "postgres")):
        PgvectorBuilder(load_settings(day_store_url=written), 1).refuse_unless_usable()
        elsewhere = load_settings(day_store_url=written, pgvector_url="postgresql://nobody@127.0.0.1:1/nothing")
        with pytest.raises(IndexServerUnavailable):
            PgvectorBuilder(elsewhere, 1).refuse_unless_usable()


@pytest.mark.parametrize("store", [None, "none", "sqlite:////tmp/store.sqlite"])
def test_no_postgresql_is_named(store: str | None) -> None:
    with pytest.raises(SettingsError, match="set PGVECTOR_URL"):
        PgvectorBuilder(load_settings(day_store_url=store), 1).refuse_unless_usable()
    with pytest.raises(SettingsError, match=r"PGVECTOR_URL.*write it like postgresql://"):
        load_settings(pgvector_url="http://127.0.0.1:5432")


def test_no_message_has_the_password(server: PostgreSQL) -> None:
    wrong = [
        f"postgresql://hmem:open-sesame@127.0.0.1:{free_port()}/hmem",
        "postgresql://hmem:open-sesame@127.0.0.1:5432/hmem?open-sesame",
        "postgresql://hmem:open-sesame@127.0.0.1:no-port/hmem",
        f"postgresql://hmem:open-sesame@/hmem?host={server.folder}",
    ]
    for url in wrong:
        settings = load_settings(pgvector_url=url)
        assert "open-sesame" not in repr(settings)
        with pytest.raises((SettingsError, IndexServerUnavailable), match="PGVECTOR_URL") as told:
            PgvectorBuilder(settings, 1).refuse_unless_usable()
        assert "open-sesame" not in str(told.value)


@contextmanager
def as_role(url: str, *rights: str) -> Iterator[str]:
    """The URL of the same database for another user, who has these rights."""
    role = f"reader_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        for right in rights:
            owner.execute(f"GRANT {right} TO {role}".encode())
        yield url.replace("postgres:@", f"{role}:@")
        owner.execute(f"DROP OWNED BY {role}".encode())
        owner.execute(f"DROP ROLE {role}".encode())


def test_a_database_without_the_extension_says_who_has_to_add_it(server: PostgreSQL) -> None:
    with (
        as_role(server.database()) as url,
        pytest.raises(SettingsError, match="CREATE EXTENSION vector in this database as a superuser"),
    ):
        PgvectorBuilder(load_settings(pgvector_url=url), 1).refuse_unless_usable()


def test_a_database_in_another_encoding_is_refused(server: PostgreSQL) -> None:
    url = server.database()
    with psycopg.connect(url, autocommit=True) as connection:
        name = f"latin_{os.getpid()}"
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
    with pytest.raises(SettingsError, match="not in UTF-8"):
        PgvectorBuilder(load_settings(pgvector_url=server.url(name)), 1).refuse_unless_usable()


def test_the_day_needs_the_right_to_read_only(server: PostgreSQL, tmp_path: Path, embedder: MadeUp) -> None:
    """And who has no right to make a schema is told so by night, before anything is done."""
    url = server.database()
    settings = load_settings(pgvector_url=url, hmem_state_dir=tmp_path / "state")
    release = make_release(settings, tmp_path, ["pgvector"], SAID)
    rights = ("USAGE ON SCHEMA hmem_vectors", "SELECT ON ALL TABLES IN SCHEMA hmem_vectors")
    with as_role(url, *rights) as reader:
        reading = settings.model_copy(update={"pgvector_url": reader})
        with closing(opened(reading, release, "pgvector")) as found:
            assert found.is_available(), found.why_not
            assert ids(found.search("note 3 of 1", "1", 1)) == ["1/3"]
        with pytest.raises(IndexServerUnavailable, match=r"refuses the night .*permission denied"):
            PgvectorBuilder(reading, 2).build(tmp_path / "2.json", corpus_of(SAID))
        assert "permission denied" in (aliases.follow(reading, release) or ""), "a rollback says so, and is done"
    with as_role(url, *rights, "UPDATE (current) ON hmem_vectors.releases") as writer:
        assert aliases.follow(settings.model_copy(update={"pgvector_url": writer}), release) is None


def test_two_installations_share_a_database_and_nothing_else(
    settings: Settings, build: Callable[[Corpus, int], Path], tmp_path: Path
) -> None:
    build(corpus_of(SAID), 1)
    theirs = settings.model_copy(update={"index_name": f"{settings.index_name}-2"})
    builder = PgvectorBuilder(theirs, 1)
    assert builder.left_over([]) == builder.sweep([]) == []
    builder.build(tmp_path / "theirs.json", corpus_of(SAID))
    assert builder.sweep([]) == [on_server.read_served(tmp_path / "theirs.json").name]
    assert len(PgvectorBuilder(settings, 1).left_over([])) == 1
    with connected(theirs, 10) as connection:
        connection.execute(f'DROP SCHEMA "{theirs.index_name}_vectors" CASCADE'.encode())


def test_tables_of_the_same_names_elsewhere_are_not_ours(
    settings: Settings, build: Callable[[Corpus, int], Path]
) -> None:
    with connected(settings, 10) as connection:
        connection.execute("CREATE TABLE public.rows (theirs int); CREATE TABLE public.releases (theirs int)")
        assert PgvectorBuilder(settings, 1).sweep([]) == []
        build(corpus_of(SAID), 1)
        assert connection.execute("SELECT count(*) FROM public.rows").fetchone() == (0,)
        connection.execute("DROP TABLE public.rows; DROP TABLE public.releases")


@pytest.mark.slow
def test_a_server_that_is_stopped_costs_the_vectors_until_it_is_back(tmp_path: Path, embedder: MadeUp) -> None:
    with postgresql_server() as own:
        settings = load_settings(pgvector_url=own.database(), hmem_state_dir=tmp_path / "state")
        release = make_release(settings, tmp_path, ["pgvector"], SAID)
        with closing(opened(settings, release, "pgvector")) as found:
            assert ids(found.search("note 3 of 1", "1", 1)) == ["1/3"]
            own.stop()
            with pytest.raises(IndexServerUnavailable, match="the pgvector server is not available"):
                found.search("note 3 of 1", "1", 1)
            assert not found.is_available()
            assert found.search("note 3 of 1", "1", 1) == [], "closed by the first failure"
            found.open()
            assert "the pgvector server is not available" in (found.why_not or "")
            with pytest.raises(IndexServerUnavailable, match="does not answer"):
                PgvectorBuilder(settings, 2).sweep([])
            own.start()
            found.open()
            assert ids(found.search("note 3 of 1", "1", 1)) == ["1/3"]


def test_a_server_that_hangs_in_mid_question_is_left(
    server: PostgreSQL, tmp_path: Path, embedder: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own limit on a statement is not kept by a process that does not run: the connection is ended from here."""
    settings = load_settings(pgvector_url=server.database(), hmem_state_dir=tmp_path / "state")
    release = make_release(settings, tmp_path, ["pgvector"], SAID)
    monkeypatch.setattr(pgvector_index, "DAY_SECONDS", 0.5)
    with closing(opened(settings, release, "pgvector")) as found:
        assert found.is_available(), found.why_not
        process = _backend_of(found)
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(IndexServerUnavailable, match="the pgvector server is not available"):
                found.similarities("note 3 of 1", "1", ["1/3"])
        finally:
            os.kill(process, signal.SIGCONT)
        found.open()
        assert ids(found.search("note 3 of 1", "1", 1)) == ["1/3"]


def test_a_server_that_hangs_once_it_has_let_us_in_is_left(
    server: PostgreSQL, tmp_path: Path, embedder: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first question: libpq's limit is for the handshake only."""
    settings = load_settings(pgvector_url=server.database(), hmem_state_dir=tmp_path / "state")
    release = make_release(settings, tmp_path, ["pgvector"], SAID)
    prepare, processes = pgvector_server._prepare, list[int]()

    def stopped(connection: Connection, schema: str) -> None:
        processes.append(connection.info.backend_pid)
        os.kill(processes[0], signal.SIGSTOP)
        prepare(connection, schema)

    monkeypatch.setattr(pgvector_index, "DAY_SECONDS", 0.5)
    monkeypatch.setattr(pgvector_server, "_prepare", stopped)
    try:
        with closing(opened(settings, release, "pgvector")) as found:
            assert "the pgvector server is not available" in (found.why_not or "")
    finally:
        os.kill(processes[0], signal.SIGCONT)


def _backend_of(found: Any) -> int:
    """The server's process of the only connection."""
    (connection,) = found._pool._idle
    assert isinstance(connection, psycopg.Connection)
    return connection.info.backend_pid


def test_a_question_that_takes_too_long_is_ended_by_the_server(settings: Settings) -> None:
    with connected(settings, 0.2) as connection, pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT pg_sleep(60)")


def test_settings_of_the_url_are_kept(settings: Settings, looking: Connection) -> None:
    url = settings.pgvector_url or ""
    given = settings.model_copy(
        update={"pgvector_url": f"{url}{'&' if '?' in url else '?'}options=-c%20work_mem%3D7MB"}
    )
    with connected(given, 10) as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
        assert connection.execute("SHOW jit").fetchone() == ("off",)
