"""A PostgreSQL is opened and shared, or refused with its name and the fix, without its password (T-13)."""

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
    """Create a user with these grants in the database and give its URL."""
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
    message = str(refusal.value)
    assert message.startswith("Cannot open the todo database postgresql+psycopg://")
    assert SETTING in message
    assert SECRET not in message
    assert "Check that its server runs and accepts your user" in message
    assert not any(word in message for word in ("FATAL", "psycopg.", "Error", "sqlalche"))
    return message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"password": f"{SECRET}-wrong"}, "refuses this user"),
        ({"username": "nobody_there"}, "refuses this user"),
        ({"database": "no_such_database"}, "does not exist: create it"),
        ({"port": free_port()}, "cannot be reached"),
        ({"host": "no-such-host.invalid"}, "cannot be reached"),
        ({"host": "x" * 300}, "its host name is invalid"),
        ({"query": {"sslmode": "require", "password": SECRET}}, "cannot be reached"),
        ({"query": {"colour": "red"}}, "cannot be reached"),
    ],
)
async def test_a_connection_that_fails_is_explained_without_secrets(
    postgres: PostgresServer, url: str, changes: dict[str, Any], words: str
) -> None:
    with role(postgres, url) as given:
        changed = sa.make_url(given).set(**changes).render_as_string(hide_password=False)
        assert words in await refusal_of(changed)


async def test_a_server_without_a_free_connection_is_named(postgres: PostgresServer, url: str) -> None:
    with role(postgres, url, options="CONNECTION LIMIT 0") as given:
        assert "accepts no more connections" in await refusal_of(given)


async def test_a_user_who_may_not_create_the_tables_is_refused_until_it_is_granted(
    postgres: PostgresServer, url: str
) -> None:
    with role(postgres, url) as given:
        assert "denies this user a permission" in await refusal_of(given)
        postgres.execute("GRANT CREATE ON SCHEMA public TO somebody", url=url)
        async with todo_client(given) as client:
            assert await client.data("list_todos", {}) == []


async def test_a_database_that_cannot_store_every_script_is_refused(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'")
    try:
        assert "has the encoding LATIN1: create it with ENCODING 'UTF8'" in await refusal_of(postgres.url("latin"))
    finally:
        postgres.execute("DROP DATABASE latin WITH (FORCE)")


async def test_a_search_path_in_the_url_separates_two_lists_in_one_database(postgres: PostgresServer, url: str) -> None:
    postgres.execute("CREATE SCHEMA mine; CREATE SCHEMA yours", url=url)
    places = [f"{url}?options={quote(f'-c search_path={schema}')}" for schema in ("mine", "yours")]
    for number, place in enumerate(places):
        async with todo_client(place) as client:
            await client.data("create_todo", {"title": f"{number}"})
    for number, place in enumerate(places):
        async with todo_client(place) as client:
            assert [todo["title"] for todo in await client.data("list_todos", {})] == [f"{number}"]
    assert "has no schema for its tables" in await refusal_of(f"{url}?options={quote('-c search_path=nowhere')}")


async def test_a_user_who_may_only_read_can_read_and_is_refused_to_write(postgres: PostgresServer, url: str) -> None:
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


async def test_another_driver_is_refused_with_the_form_of_url_to_use() -> None:
    message = r"begin the URL with postgresql://.*pip install 'toolweave\[postgres\]'"
    with pytest.raises(ConfigError, match=message) as refusal:
        async with open_todo_database(f"postgresql+asyncpg://u:{SECRET}@h/d"):
            pass
    assert SECRET not in str(refusal.value)


WITHOUT_PSYCOPG = """
import runpy, sys
sys.modules["psycopg"] = None
runpy.run_module("toolweave.servers.todo", run_name="__main__")
"""


def test_without_the_driver_the_program_ends_and_names_the_package_to_install(url: str) -> None:
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
