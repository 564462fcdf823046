"""`toolweave doctor` where databases are on a PostgreSQL: reached, of a known schema, read only; never a password."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.fixtures.mcp_server import free_port
from tests.fixtures.postgres import PostgresServer
from toolweave.cli.doctor import CHECKS, catch_errors, check_query_database, diagnose
from toolweave.config.settings import Settings
from toolweave.servers.registry.repository import open_registry_at
from toolweave.servers.todo.database import open_todo_database

SECRET = "s3cret-password"


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url


def lines_of(settings: Settings) -> list[str]:
    names = ("todo database", "registered tools")
    findings = [finding for name in names for finding in catch_errors(name, CHECKS[name](settings))]
    return [f"{finding.level} {finding.subject}: {finding.text} {finding.fix or ''}".strip() for finding in findings]


def test_new_databases_are_well_and_doctor_makes_no_tables(postgres: PostgresServer, url: str) -> None:
    settings = Settings(todo_database_url=url, tools_database_url=url)
    assert lines_of(settings) == [
        "ok todo database: PostgreSQL on 127.0.0.1, without tables yet.",
        "ok registered tools: none; the first server creates their tables in the tool registry.",
    ]
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", url=url) == [(0,)]


def test_databases_in_use_are_well_and_a_newer_schema_fails(postgres: PostgresServer, url: str) -> None:
    settings = Settings(todo_database_url=url, tools_database_url=url)
    asyncio.run(make_tables(url))
    assert lines_of(settings) == [
        "ok todo database: PostgreSQL on 127.0.0.1, its tables exist.",
        "ok registered tools: 0 in the tool registry.",
    ]
    postgres.execute("UPDATE todo_schema_version SET version = 7", url=url)
    postgres.execute("UPDATE tool_registry_schema_version SET version = 7", url=url)
    todos, tools = lines_of(settings)
    assert todos.startswith("fail todo database: The todo database ")
    assert tools.startswith("fail registered tools: The tool registry ")
    for finding in (todos, tools):
        assert "has schema 7" in finding
        assert "Upgrade Toolweave" in finding


def test_the_query_database_is_to_be_read_only(postgres: PostgresServer, url: str) -> None:
    asyncio.run(make_tables(url))
    postgres.execute("CREATE ROLE reader; GRANT SELECT ON todos TO reader", url=url)
    try:
        (writes,) = check_query_database(Settings(query_database_url=url))
        assert (writes.level, writes.subject) == ("warn", "query database")
        assert "TOOLWEAVE_QUERY_ROLE" in (writes.fix or "")
        (reads,) = check_query_database(Settings(query_database_url=url, query_role="reader"))
        assert (reads.level, reads.text) == ("ok", "PostgreSQL answers; its user can only read.")
        nobody = check_query_database(Settings(query_database_url=url, query_role="nobody_there"))
        (unknown,) = catch_errors("query database", nobody)
        assert unknown.level == "fail"
    finally:
        postgres.execute("DROP OWNED BY reader; DROP ROLE reader", url=url)


@pytest.mark.requirement("C-03")
def test_the_users_of_the_documentation_may_do_what_it_says(postgres: PostgresServer, url: str) -> None:
    written = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text(encoding="utf-8")
    name = sa.make_url(url).database or ""
    owner, reader = re.findall(r"```sql\n(.*?)```", written.replace("DATABASE shop", f"DATABASE {name}"), re.DOTALL)
    postgres.execute("CREATE TABLE orders (id int); CREATE TABLE customers (id int, name text, secret text)", url=url)
    try:
        postgres.execute(owner + reader, url=url)
        asyncio.run(make_tables(postgres.url(name, "toolweave", "choose one")))
        (found,) = check_query_database(
            Settings(query_database_url=postgres.url(name, "toolweave_reader", "choose another"))
        )
        assert (found.level, found.text) == ("ok", "PostgreSQL answers; its user can only read.")
    finally:
        postgres.execute("DROP OWNED BY toolweave, toolweave_reader; DROP ROLE toolweave, toolweave_reader", url=url)


def test_what_cannot_be_reached_fails_without_its_password(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"postgresql://ann:{SECRET}@127.0.0.1:{free_port()}/db?password={SECRET}"
    (elsewhere / "mcp.jsonc").write_text('{"mcpServers": {}}', encoding="utf-8")
    monkeypatch.setenv("TOOLWEAVE_MCP_CONFIG", str(elsewhere / "mcp.jsonc"))
    for name in ("TODO", "TOOLS", "QUERY"):
        monkeypatch.setenv(f"TOOLWEAVE_{name}_DATABASE_URL", url)
    found = list(diagnose(None, elsewhere / "data"))
    failed = {finding.subject: finding for finding in found if finding.level == "fail"}
    for subject in ("todo database", "registered tools", "query database"):
        assert "cannot be reached: check host" in failed[subject].text
    assert SECRET not in str(found)


async def make_tables(url: str) -> None:
    async with open_todo_database(url), open_registry_at(url):
        pass
