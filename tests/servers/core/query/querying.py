"""Reach query_database in this process, over a real database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from fastmcp import Client

from tests.servers.todo.in_memory import TodoClient
from toolweave.config.settings import Settings
from toolweave.servers.core.server import open_core_server


class QueryClient(TodoClient):
    """Query tables and get rows, envelopes or errors."""

    async def query(self, table: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.call("query_database", {"table": table, **arguments})
        assert answer["status"] == "success", answer
        return answer

    async def rows(self, table: str, **arguments: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (await self.query(table, **arguments))["data"]
        return rows

    async def found(self, table: str, filters: Any, **arguments: Any) -> list[Any]:
        """Return the ids of the rows that match, in order."""
        rows = await self.rows(table, filters=filters, columns=["id"], order_by="id", **arguments)
        return [row["id"] for row in rows]

    async def refused(self, table: str, **arguments: Any) -> dict[str, str]:
        return await self.error("query_database", {"table": table, **arguments})


@asynccontextmanager
async def query_client(url: str, tables: str, **settings: Any) -> AsyncIterator[QueryClient]:
    """Serve a database; `settings` are more of those that begin with `query_`."""
    named = {f"query_{name}": value for name, value in settings.items()}
    served = Settings(query_database_url=url, query_tables=tables, **named)
    async with open_core_server(served) as server, Client(server) as client:
        yield QueryClient(client)


def run_sql(url: str, *statements: str, values: Any = None) -> None:
    """Run statements on a database as another program would; `values` are the parameters of the last one."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements[:-1]:
            connection.execute(sa.text(statement))
        connection.execute(sa.text(statements[-1]), values)
    engine.dispose()
