"""Open query_database from the settings; a setting that is wrong closes the tool, and nothing else (C-03)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from loguru import logger

from toolweave.config.query_tables import AllowedTable, query_tables
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query import rules
from toolweave.servers.core.query.catalogue import Catalogue
from toolweave.servers.core.query.database import open_query_database
from toolweave.servers.core.query.forbidden_pattern import forbidden_pattern
from toolweave.servers.core.query.guardrails import Guardrails
from toolweave.servers.core.query.operators_guardrail import operators_guardrail
from toolweave.servers.core.query.own_tables import is_closed
from toolweave.servers.core.query.queries import Queries
from toolweave.servers.core.query.tools import QueryTools


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
    allowed = _open_tables(settings)
    database = await open_things.enter_async_context(open_query_database(settings))
    catalogue = Catalogue(allowed, database)
    patterns = [forbidden_pattern(settings.query_forbidden)] if settings.query_forbidden else []
    own = [await operators_guardrail(settings.query_guardrail)] if settings.query_guardrail else []
    chain = [
        rules.table_allow_list(catalogue),
        rules.column_allow_list(catalogue),
        rules.operators(catalogue),
        rules.limit_cap(settings.query_max_rows),
        *patterns,
        *own,
    ]
    return Queries(database, catalogue, Guardrails(chain))


def _open_tables(settings: Settings) -> tuple[AllowedTable, ...]:
    listed = query_tables(settings.query_tables)
    allowed = tuple(table for table in listed if not is_closed(table))
    for table in set(listed) - set(allowed):
        logger.warning("query_database never reads {}, although TOOLWEAVE_QUERY_TABLES lists it.", table.label)
    if not allowed:
        raise ConfigError(
            "it lists no table that may be read.", source="TOOLWEAVE_QUERY_TABLES", fix="List some, as in: todos."
        )
    return allowed
