"""The tool query_database (C-03)."""

from fastmcp.tools import ToolResult
from pydantic.json_schema import SkipJsonSchema

from toolweave.errors import ConfigError
from toolweave.servers.core.query.filters import read_filters, read_order
from toolweave.servers.core.query.models import Query
from toolweave.servers.core.query.parameters import (
    DEFAULT_LIMIT,
    Columns,
    Filters,
    Limit,
    OrderBy,
    TableName,
)
from toolweave.servers.core.query.queries import Queries
from toolweave.servers.envelope import failure
from toolweave.servers.error_codes import NOT_CONFIGURED, ToolFailed

Absent = SkipJsonSchema[None]


class QueryTools:
    """The tool as a method; its docstring and annotations are what a model reads about it.

    `queries` is the reason instead where the operator's settings do not let any be run.
    """

    def __init__(self, queries: Queries | ConfigError, most_rows: int) -> None:
        self._queries = queries
        self._most_rows = most_rows

    async def query_database(
        self,
        table: TableName,
        filters: Filters | Absent = None,
        columns: Columns | Absent = None,
        order_by: OrderBy | Absent = None,
        limit: Limit = DEFAULT_LIMIT,
    ) -> ToolResult:
        """Read rows of a database table: look records up, filter and sort them.

        Use it to answer questions about stored data, such as "which todos are due this week?" or "what did this
        customer order last?". It only reads, and only the tables that the operator allows. Answers the rows as
        objects; metadata.has_more tells whether there are others.
        """
        try:
            if isinstance(self._queries, ConfigError):
                raise ToolFailed(NOT_CONFIGURED, f"query_database cannot be used: {self._queries}")
            # The default is no wish: it may be more than the operator allows.
            rows = min(limit, self._most_rows) if limit == DEFAULT_LIMIT else limit
            names = tuple(dict.fromkeys(columns)) if columns else None
            query = Query(table, read_filters(filters), names, read_order(order_by), rows)
            return await self._queries.answer(query)
        except ToolFailed as error:
            return failure(error.code, str(error), error.suggestion)
