"""Look up which tool ids are taken; within a transaction that writes, what is free stays free."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.servers.registry.schema import TOOLS
from toolweave.servers.registry.tool_ids import folded, wishes

# SQLite takes 32 766 parameters in one statement, PostgreSQL 65 535.
_IN_ONE_STATEMENT = 1_000
_TRIED_AT_ONCE = 100

T = TypeVar("T")


def portions(items: Iterable[T], size: int = _IN_ONE_STATEMENT) -> Iterator[Sequence[T]]:
    """Split into as many items as one statement may name."""
    rest = iter(items)
    while portion := tuple(islice(rest, size)):
        yield portion


async def taken(connection: AsyncConnection, tool_ids: Iterable[str]) -> dict[str, sa.RowMapping]:
    """Give those tools, without documents, whose ids equal one of `tool_ids` but for case; by folded id."""
    columns = (TOOLS.c.tool_id, TOOLS.c.folded_id, TOOLS.c.revision, TOOLS.c.created_at)
    found: dict[str, sa.RowMapping] = {}
    for portion in portions({folded(tool_id) for tool_id in tool_ids}):
        rows = await connection.execute(sa.select(*columns).where(TOOLS.c.folded_id.in_(portion)))
        found |= {row["folded_id"]: row for row in rows.mappings()}
    return found


async def free_id(connection: AsyncConnection, wish: str) -> str:
    """Give the id, or the first numbered one like it that is free."""
    for tried in portions(wishes(wish), _TRIED_AT_ONCE):
        there = await taken(connection, tried)
        if free := next((tool_id for tool_id in tried if folded(tool_id) not in there), None):
            return free
    raise AssertionError("there is no end of wishes")
