"""A PostgreSQL is opened, shared and refused in words that name it and the fix, never its password (T-13)."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from tests.fixtures.mcp_server import free_port
from tests.fixtures.postgres import PostgresServer
from tests.servers.todo.in_memory import todo_client
from toolweave.errors import ConfigError, PersistenceError
from toolweave.servers.todo.database import open_todo_database

pytestmark = pytest.mark.requirement("T-13")

SECRET = "s3cret-password"
SETTING = "TOOLWEAVE_TODO_DATABASE_URL"


@contextmanager
def role(postgres: PostgresServer, url: str, *granted: str, options: str = "") -> Iterator[str]:
    """Give the URL by which a user connects who may do in this database what is granted."""
    postgres.execute(f"CREATE ROLE somebody LOGIN PASSWORD '{SECRET}' {options}")
    try:
        for statement in granted:
            postgres.execute(statement, url=url)
        yield postgres.url(sa.make_url(url).database or "", "somebody", SECRET)
    finally:
        postgres.execute("DROP OWNED BY somebody", url=url)
        postgres.execute("DROP ROLE somebody")


async def refusal_of(url: str) -> str:
    with pytest.raises(PersistenceError) as refusal:
        async with open_todo_database(url):
            pass
    said = str(refusal.value)
    assert said.startswith("Cannot open the todo database postgresql+psycopg://")
    assert SETTING in said
    assert SECRET not in said
    assert "Check that its server runs and accepts your user" in said
    assert not any(word in said for word in ("FATAL", "psycopg.", "Error", "sqlalche"))
    return said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": f"{SECRET}-wrong"}, "refuses this user"),
        ({"password": ""}, "refuses this user"),
        ({"username": "nobody_there"}, "refuses this user"),
        ({"database": "no_such_database"}, "does not exist: create it"),
        ({"port": free_port()}, "cannot be reached"),
        ({"port": 99_999}, "cannot be reached"),
        ({"host": "no-such-host.invalid"}, "cannot be reached"),
        ({"host": "x" * 300}, "its host name is invalid"),
        ({"query": {"sslmode": "require", "password": SECRET}}, "cannot be reached"),
        ({"query": {"colour": "red"}}, "cannot be reached"),
        ({"query": {"host": "/no/such/folder"}}, "cannot be reached"),
    ],
)
async def test_whoever_cannot_connect_hears_why_without_secrets(
    postgres: PostgresServer, url: str, changes: dict[str, Any], words: str
) -> None:
    with role(postgres, url) as given:
        said = await refusal_of(sa.make_url(given).set(**changes).render_as_string(hide_password=False))
    assert words in said


async def test_a_server_with_all_its_connections_taken_says_so(postgres: PostgresServer, url: str) -> None:
    with role(postgres, url, options="CONNECTION LIMIT 0") as given:
        assert "accepts no more connections" in await refusal_of(given)


async def test_a_user_who_may_not_create_the_tables_hears_of_the_grants(postgres: PostgresServer, url: str) -> None:
    with role(postgres, url) as given:
        assert "denies this user a permission" in await refusal_of(given)
        postgres.execute("GRANT CREATE ON SCHEMA public TO somebody", url=url)
        async with todo_client(given) as client:
            assert await client.data("list_todos", {}) == []


async def test_a_database_that_cannot_keep_every_script_is_refused(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'")
    try:
        assert "has the encoding LATIN1: create it with ENCODING 'UTF8'" in await refusal_of(postgres.url("latin"))
    finally:
        postgres.execute("DROP DATABASE latin WITH (FORCE)")


async def test_a_search_path_in_the_url_keeps_two_lists_in_one_database(postgres: PostgresServer, url: str) -> None:
    postgres.execute("CREATE SCHEMA mine; CREATE SCHEMA yours", url=url)
    places = [f"{url}?options={quote(f'-c search_path={schema}')}" for schema in ("mine", "yours")]
    for number, place in enumerate(places):
        async with todo_client(place) as client:
            await client.data("create_todo", {"title": f"{number}"})
    for number, place in enumerate(places):
        async with todo_client(place) as client:
            assert [todo["title"] for todo in await client.data("list_todos", {})] == [f"{number}"]
    assert "has no schema for its tables" in await refusal_of(f"{url}?options={quote('-c search_path=nowhere')}")


async def test_a_user_who_may_only_read_reads_and_hears_that_the_rest_is_refused(
    postgres: PostgresServer, url: str
) -> None:
    async with todo_client(url) as client:
        todo = await client.data("create_todo", {"title": "x"})
    with role(postgres, url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO somebody") as given:
        async with todo_client(given) as client:
            assert await client.data("list_todos", {}) == [todo]
            assert "denies this user a permission" in (await client.error("create_todo", {"title": "y"}))["message"]
        postgres.execute("ALTER ROLE somebody SET default_transaction_read_only = on")
        async with todo_client(given) as client:
            assert await client.data("list_todos", {}) == [todo]
            assert "is read-only" in (await client.error("create_todo", {"title": "y"}))["message"]


@pytest.mark.parametrize("driver", ["psycopg2", "asyncpg", "pg8000"])
async def test_another_driver_is_refused_with_the_one_that_is_used(driver: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        async with open_todo_database(f"postgresql+{driver}://u:{SECRET}@h/d"):
            pass
    assert "begin the URL with postgresql://" in str(refusal.value)
    assert "pip install 'toolweave[postgres]'" in str(refusal.value)
    assert SECRET not in str(refusal.value)


WITHOUT_PSYCOPG = """
import runpy, sys
sys.modules["psycopg"] = None
runpy.run_module("toolweave.servers.todo", run_name="__main__")
"""


def test_without_the_driver_the_program_ends_and_says_what_to_install(url: str) -> None:
    ended = subprocess.run(
        (sys.executable, "-c", WITHOUT_PSYCOPG),
        env={SETTING: f"postgresql://u:{SECRET}@h/d"},
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    (line,) = ended.stderr.decode().splitlines()
    assert SETTING in line
    assert "pip install 'toolweave[postgres]'" in line
    assert SECRET not in line
