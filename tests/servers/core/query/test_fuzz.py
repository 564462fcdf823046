"""Made-up queries over made-up rows: answered as Python would, never a write, never an unbound value (C-03)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.servers.core.query import query_cases as cases
from toolweave.config.settings import Settings
from toolweave.servers.core.query.tools import QueryTools, open_query_tools

_CASES = 80
_SLOW_CASES = 2_000
_QUERIES_PER_TABLE = 8


class Fuzzed:
    """A database and the tool over it, with every statement that the tool's connections execute."""

    def __init__(self, engine: sa.Engine, tools: QueryTools) -> None:
        self.engine = engine
        self.tools = tools
        self.statements: list[tuple[str, str]] = []

    def fill(self, rows: list[dict[str, Any]]) -> None:
        with self.engine.begin() as connection:
            connection.execute(cases.THINGS.delete())
            if rows:
                connection.execute(cases.THINGS.insert(), rows)

    def checksum(self) -> str:
        with self.engine.begin() as connection:
            tables = (cases.THINGS, cases.VAULT)
            found = [connection.execute(sa.select(table).order_by(table.c.id)).all() for table in tables]
        names = sa.inspect(self.engine).get_table_names()
        return hashlib.sha256(repr((found, sorted(names))).encode()).hexdigest()


@asynccontextmanager
async def fuzzed(url: str) -> AsyncIterator[Fuzzed]:
    engine = sa.create_engine(url)
    cases.METADATA.create_all(engine)
    with engine.begin() as connection:
        connection.execute(cases.VAULT.insert(), [{"id": 1, "name": "treasure"}])
    given_settings = Settings(query_database_url=url, query_tables="things", query_max_rows=cases.CAP)
    async with open_query_tools(given_settings) as tools:
        database = Fuzzed(engine, tools)

        def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _x: Any, _many: bool) -> None:
            database.statements.append((statement, repr(parameters)))

        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        try:
            yield database
        finally:
            sa.event.remove(sa.Engine, "before_cursor_execute", note)
            engine.dispose()


async def _check(database: Fuzzed, draw: Any) -> None:
    rows = draw(cases.rows())
    database.fill(rows)
    before = database.checksum()
    for _ in range(_QUERIES_PER_TABLE):
        await _check_query(database, rows, draw)
    assert database.checksum() == before


async def _check_query(database: Fuzzed, rows: list[dict[str, Any]], draw: Any) -> None:
    tree = draw(cases.filters(rows))
    order = draw(
        st.lists(st.sampled_from([f"{sign}{name}" for sign in ("", "-") for name in cases.COLUMNS]), max_size=3)
    )
    columns = draw(st.none() | st.lists(st.sampled_from(cases.COLUMNS), min_size=1, max_size=4, unique=True))
    limit = draw(st.sampled_from([cases.CAP, 7, cases.CAP - 1, 3, cases.CAP + 1]))
    arguments = {
        "table": "things",
        "filters": cases.as_call(tree),
        "order_by": order,
        "columns": columns,
        "limit": limit,
    }
    database.statements.clear()
    answer = (await database.tools.query_database(**arguments)).structured_content
    assert answer is not None
    executed = list(database.statements)
    _bound_only(executed, tree)
    if limit > cases.CAP:
        assert answer["error"]["code"] == "guardrail"
        return
    found = [row for row in rows if all(cases.holds(item, row) for item in tree)]
    expected = cases.ordered(found, _first_of_each(order))
    rows = [{name: _in_answer(row[name]) for name in columns or cases.COLUMNS} for row in expected[:limit]]
    assert answer["data"] == rows, arguments
    assert answer["metadata"]["has_more"] == (len(expected) > limit)


def _bound_only(executed: list[tuple[str, str]], tree: Any) -> None:
    """No statement writes, and no value of a call is in the text of one."""
    for statement, _ in executed:
        assert statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "DECLARE", "FETCH")), statement
        if "things" in statement:
            assert ";" not in statement
            assert "--" not in statement
            assert "0x" not in statement
            for value in cases.values_of(tree):
                text = value.isoformat() if isinstance(value, date) else str(value)
                if len(text) > 3 and not isinstance(value, bool):
                    assert text not in statement, value


def _first_of_each(order: list[str]) -> list[str]:
    first: dict[str, str] = {}
    for item in order:
        first.setdefault(item.removeprefix("-"), item)
    return list(first.values())


def _in_answer(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, int) and abs(value) > 2**53 - 1 else value


def _fuzz(url: str, examples: int) -> None:
    with asyncio.Runner() as runner:

        async def enter() -> tuple[Any, Fuzzed]:
            context = fuzzed(url)
            return context, await context.__aenter__()

        context, database = runner.run(enter())

        @settings(
            max_examples=max(1, examples // _QUERIES_PER_TABLE),
            # The smallest failing example takes minutes to find; any one will do.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def run(data: st.DataObject) -> None:
            runner.run(_check(database, data.draw))

        try:
            run()
        finally:
            runner.run(context.__aexit__(None, None, None))


@pytest.mark.requirement("C-03")
def test_made_up_queries_are_answered_as_python_answers_them(empty_url: str) -> None:
    _fuzz(empty_url, _CASES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_of_made_up_queries_are_answered_as_python_answers_them(empty_url: str) -> None:
    _fuzz(empty_url, _SLOW_CASES)
