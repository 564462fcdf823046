"""The tool query_database (C-03): its parameters, and how it is opened from the settings."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

from fastmcp.tools import ToolResult
from loguru import logger
from pydantic import Field, WithJsonSchema

from toolweave.config.settings import Settings, query_tables
from toolweave.errors import ConfigError
from toolweave.servers.core.query import request
from toolweave.servers.core.query.databases import Catalogue, open_query_database
from toolweave.servers.core.query.guardrails import guardrails, is_closed
from toolweave.servers.core.query.queries import Queries
from toolweave.servers.envelope import failure
from toolweave.servers.error_codes import NOT_CONFIGURED, ToolFailed
from toolweave.servers.tool_declaration import WHOLE_NUMBER, Absent

MOST_COLUMNS = 200
MOST_ROWS = 100_000
DEFAULT_LIMIT = 100
_NAME: dict[str, Any] = {"type": "string", "maxLength": request.LONGEST_NAME}
_SCALARS = [{"type": "string", "maxLength": request.LONGEST_TEXT}, {"type": "number"}, {"type": "boolean"}]
_VALUES = {"type": "array", "items": {"anyOf": _SCALARS}, "minItems": 1, "maxItems": request.MOST_VALUES}


def _members(relation: str) -> dict[str, Any]:
    description = f"Instead of column, op and value: conditions {relation}."
    return {"type": "array", "items": {"type": "object"}, "minItems": 1, "description": description}


# Written out: some models take no schema that refers to itself, and a filter may hold filters.
_CONDITION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "column": {"type": "string", "description": "The column to compare.", "maxLength": request.LONGEST_NAME},
        "op": {
            "type": "string",
            "enum": list(request.OPERATORS),
            "default": "eq",
            "description": "eq, ne, lt, le, gt, ge compare; in takes a list of values; like takes a pattern with % for "
            "any characters and _ for one, whatever the case; is_null takes true or false.",
        },
        "value": {
            "anyOf": [*_SCALARS, _VALUES],
            "description": "What to compare with: dates and times as ISO 8601 text, bytes in base64.",
        },
        "and": _members("that must all hold"),
        "or": _members("of which one must hold"),
    },
}


TableName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2 * request.LONGEST_NAME,
        description="The table to read, as the operator allows it; an error names those that there are.",
        examples=["todos"],
    ),
]
Filters = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [{"type": "array", "items": _CONDITION, "maxItems": request.MOST_CONDITIONS}, {"type": "object"}],
            "description": "Which rows to return: a list of conditions that must all hold, each {column, op, value} or "
            'a group {"and": […]} or {"or": […]} of such; or, for equality, an object {column: value}. '
            f"At most {request.MOST_CONDITIONS} conditions, nested at most {request.DEEPEST} deep. A comparison with a "
            "row's missing value does not hold; ask for such rows with is_null.",
            "examples": [
                {"status": "active"},
                [{"column": "due_date", "op": "lt", "value": "2026-12-24"}],
                [
                    {
                        "or": [
                            {"column": "priority", "op": "eq", "value": "high"},
                            {"column": "title", "op": "like", "value": "%milk%"},
                        ]
                    }
                ],
            ],
        }
    ),
]
Columns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=request.LONGEST_NAME)]],
    Field(
        min_length=1,
        max_length=MOST_COLUMNS,
        description="The columns to return; all that may be read if left out.",
        examples=[["id", "title"]],
    ),
]
OrderBy = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": request.LONGEST_NAME},
                {
                    "type": "array",
                    "items": {"type": "string", "maxLength": request.LONGEST_NAME},
                    "maxItems": request.MOST_ORDERINGS,
                },
            ],
            "description": 'What to order the rows by: "column" for ascending, "-column" or "column desc" for '
            "descending order, or a list of such; rows without a value come last.",
            "examples": ["-created_at", ["priority", "due_date desc"]],
        }
    ),
]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=MOST_ROWS),
    WHOLE_NUMBER,
    Field(description="How many rows to return at most; the operator may allow fewer, usually 1000.", examples=[20]),
]


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
            query = request.TableQuery(table, request.read_filters(filters), names, request.read_order(order_by), rows)
            return await self._queries.answer(query)
        except ToolFailed as error:
            return failure(error.code, str(error), error.suggestion)


@asynccontextmanager
async def open_query_tools(settings: Settings) -> AsyncIterator[QueryTools]:
    """Prepare the tool; the database is connected with its first use.

    Where a setting is wrong, the log says so and the tool answers `not_configured`.
    """
    async with AsyncExitStack() as open_things:
        queries: Queries | ConfigError
        try:
            queries = await _queries(settings, open_things)
        except ConfigError as error:
            logger.error("query_database cannot be used: {}", error)
            queries = error
        yield QueryTools(queries, settings.query_max_rows)


async def _queries(settings: Settings, open_things: AsyncExitStack) -> Queries:
    listed = query_tables(settings.query_tables)
    allowed = [table for table in listed if not is_closed(table)]
    for table in set(listed) - set(allowed):
        logger.warning("query_database never reads {}, although TOOLWEAVE_QUERY_TABLES lists it.", table.label)
    if not allowed:
        raise ConfigError(
            "it lists no table that may be read.", source="TOOLWEAVE_QUERY_TABLES", fix="List some, as in: todos."
        )
    database = await open_things.enter_async_context(open_query_database(settings))
    catalogue = Catalogue(allowed, database)
    return Queries(database, catalogue, await guardrails(settings, catalogue))
