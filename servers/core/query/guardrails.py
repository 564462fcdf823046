"""Check every query with a chain of guardrails; if one refuses the query, the error names it (D-12).

The chain consists of our rules on tables, columns, operators and the limit, then the operator's pattern of forbidden
texts, then the operator's own function.
"""

import asyncio
import concurrent.futures
import inspect
import pkgutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import regex  # type: ignore[import-untyped]
from loguru import logger

from toolweave.config.settings import AllowedTable, Settings, parse_query_tables
from toolweave.errors import ConfigError
from toolweave.servers.core.query.database import ReadableTable
from toolweave.servers.core.query.request import TableQuery
from toolweave.servers.error_codes import GUARDRAIL, ToolFailed

_TABLES_SETTING = "TOOLWEAVE_QUERY_TABLES"
_PATTERN_SETTING = "TOOLWEAVE_QUERY_FORBIDDEN"
# Some patterns need very long for some texts; a text that is not checked by then is refused.
PATTERN_TIMEOUT_S = 0.5
_FUNCTION_SETTING = "TOOLWEAVE_QUERY_GUARDRAIL"
FUNCTION_TIMEOUT_S = 1.0
MAX_CONCURRENT_CALLS = 8
_MAX_REASON_LENGTH = 300
_ASK_OPERATOR = "Ask the operator to look into the server's log."

Guardrail = Callable[[TableQuery], Any]


def refusal(rule: str, reason: str, suggestion: str | None = None) -> ToolFailed:
    """Build the error with which a rule refuses a query."""
    return ToolFailed(GUARDRAIL, f"The guardrail '{rule}' refused the query: {reason}", suggestion)


@dataclass(frozen=True, slots=True)
class Guardrails:
    """Checks a query by the allowed tables, the row limit, and the operator's pattern and `custom` function."""

    tables: Mapping[str, AllowedTable]
    max_rows: int
    forbidden: Any = None
    custom: Guardrail | None = None
    # A function that hangs cannot be stopped and keeps its slot.
    _slots: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, MAX_CONCURRENT_CALLS), init=False)

    def find_table(self, label: str) -> AllowedTable:
        """Return an allowed table. Raises ToolFailed: it is not allowed; a missing table gets the same message."""
        if label not in self.tables:
            message = "Parameter 'table' must be one of the tables that may be read."
            raise refusal("table_allow_list", message, f"Use {', '.join(self.tables)}.")
        return self.tables[label]

    def check(self, query: TableQuery, table: ReadableTable) -> None:
        """Check a query's columns, operators and row limit. Raises ToolFailed; its message names the rule."""
        _check_columns(query, table)
        _check_operators(query, table)
        if query.limit > self.max_rows:
            message = f"Parameter 'limit' must be at most {self.max_rows}."
            raise refusal("limit_cap", message, f"Ask for at most {self.max_rows} rows, or filter by more.")

    async def check_custom_rules(self, query: TableQuery) -> None:
        """Check a query with the operator's rules. Raises ToolFailed: a rule refuses it; the message names the rule."""
        if self.forbidden:
            await asyncio.to_thread(_check_texts, self.forbidden, query)
        if self.custom and (reason := await _custom_refusal(self.custom, query, self._slots)) is not None:
            raise refusal("own_guardrail", reason.strip()[:_MAX_REASON_LENGTH] or "it returned no reason.")


def read_guardrails(settings: Settings) -> Guardrails:
    """Build the chain from the settings. It imports the operator's function: do not call it on an event loop.

    Raises:
        ConfigError: a guardrail's setting is invalid.
    """
    tables = {table.label: table for table in parse_query_tables(settings.query_tables)}
    for label in [label for label, table in tables.items() if is_reserved(table)]:
        logger.warning("query_database never reads {}, although {} lists it.", label, _TABLES_SETTING)
        del tables[label]
    if not tables:
        raise ConfigError("it lists no table that may be read.", source=_TABLES_SETTING, fix="List some, as in: todos.")
    pattern, target = settings.query_forbidden, settings.query_guardrail
    try:
        forbidden = regex.compile(pattern) if pattern else None
    except (regex.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            f"it is not a regular expression: {error}.", source=_PATTERN_SETTING, fix="Correct it, or unset it."
        ) from None
    return Guardrails(tables, settings.query_max_rows, forbidden, _load_function(target) if target else None)


def _check_columns(query: TableQuery, table: ReadableTable) -> None:
    """Refuse a query that names a column that is absent or may not be read."""
    for path, column in query.named_columns():
        if column not in table.columns:
            message = f"Parameter '{path}' must be a column of '{query.table}' that may be read."
            raise refusal("column_allow_list", message, f"Use {', '.join(table.columns)}.")


def _check_operators(query: TableQuery, table: ReadableTable) -> None:
    """Refuse comparisons and orderings that are not supported for a column's kind."""
    for condition in query.filters.conditions():
        kind = table.columns[condition.column].kind
        if condition.op not in kind.operators:
            must = f"must use one of {', '.join(kind.operators)}: '{condition.column}' holds {kind.content}."
            raise refusal("operators", f"Parameter '{condition.path}' {must}")
    for ordering in query.order_by:
        kind = table.columns[ordering.column].kind
        if not kind.is_orderable:
            must = f"must be another column: '{ordering.column}' holds {kind.content}."
            raise refusal("operators", f"Parameter '{ordering.path}' {must}")


def _check_texts(forbidden: Any, query: TableQuery) -> None:
    """Refuse a query if a text that it compares with matches the operator's pattern."""
    deadline = time.monotonic() + PATTERN_TIMEOUT_S
    for path, text in query.texts():
        try:
            # `concurrent` releases the GIL.
            found = forbidden.search(text, concurrent=True, timeout=max(0.001, deadline - time.monotonic()))
        except TimeoutError:
            message = f"Parameter '{path}' could not be checked in time."
            raise refusal("forbidden_pattern", message, "Compare with shorter texts.") from None
        if found:
            message = f"Parameter '{path}' must not contain text that the operator forbids."
            raise refusal("forbidden_pattern", message, "Compare with other texts.")


async def _custom_refusal(function: Guardrail, query: TableQuery, slots: asyncio.Semaphore) -> str | None:
    """Return the reason if the operator's function, sync or async, refuses; raise if it fails or times out."""
    try:
        await asyncio.wait_for(slots.acquire(), FUNCTION_TIMEOUT_S)
    except TimeoutError:
        raise refusal("own_guardrail", "it is busy with other queries.", "Try again in a moment.") from None
    call = asyncio.ensure_future(_call_function(function, query, slots))
    try:
        await asyncio.wait({call}, timeout=FUNCTION_TIMEOUT_S)
    finally:
        call.cancel()
    if not call.done() or call.cancelled():
        logger.error("the guardrail of {} did not answer within {:g} s", _FUNCTION_SETTING, FUNCTION_TIMEOUT_S)
        raise refusal("own_guardrail", "it did not answer in time.", _ASK_OPERATOR)
    if error := call.exception():
        logger.opt(exception=error).error("the guardrail of {} failed", _FUNCTION_SETTING)
        raise refusal("own_guardrail", "it failed.", _ASK_OPERATOR)
    return call.result()


async def _call_function(function: Guardrail, query: TableQuery, slots: asyncio.Semaphore) -> str | None:
    reason = await _call_in_thread(partial(function, query), slots)
    try:
        # An async function's coroutine runs on this event loop.
        if inspect.isawaitable(reason):
            reason = await reason
    except SystemExit:
        raise RuntimeError("it raised SystemExit") from None
    if not isinstance(reason, str | None):
        raise TypeError("it returned neither None nor a text")
    return reason


async def _call_in_thread(call: Callable[[], Any], slots: asyncio.Semaphore) -> Any:
    """Run a call on a daemon thread, which does not delay the process's exit; release `slots` when it returns."""
    result: concurrent.futures.Future[Any] = concurrent.futures.Future()
    # A caller that stops waiting must not cancel it, because the thread continues.
    result.set_running_or_notify_cancel()
    loop = asyncio.get_running_loop()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001  any exception refuses the query
            # A BaseException such as SystemExit would stop more than this call.
            harmless = isinstance(error, Exception) and not isinstance(error, StopIteration)
            result.set_exception(error if harmless else RuntimeError(f"it raised {type(error).__name__}"))
        with suppress(RuntimeError):  # the event loop has closed
            loop.call_soon_threadsafe(slots.release)

    threading.Thread(target=run, name="query guardrail", daemon=True).start()
    return await asyncio.wrap_future(result)


def _load_function(target: str) -> Guardrail:
    try:
        function: Guardrail = pkgutil.resolve_name(target.strip())
        if not callable(function):
            raise TypeError("it cannot be called")
    except (Exception, SystemExit) as error:
        logger.opt(exception=error).error("the guardrail of {} cannot be loaded", _FUNCTION_SETTING)
        fix = "Name a function that accepts a query, as module:attr, or unset it."
        raise ConfigError(f"it cannot be loaded: {type(error).__name__}.", source=_FUNCTION_SETTING, fix=fix) from error
    return function


_RESERVED_TABLES = frozenset(
    (
        "alembic_version",
        # of the LangGraph API
        *("assistants", "assistant_versions", "checkpoints", "checkpoint_blobs", "checkpoint_migrations"),
        *("checkpoint_writes", "crons", "kept_writes", "processes", "run_events", "runs", "schema_compatibility"),
        *("store", "store_migrations", "store_vectors", "thread_events", "thread_labels", "thread_sequences"),
        *("threads", "vector_migrations", "webhook_deliveries", "writes"),
        # of the todo server, besides the todos, and of the tool registry
        *("todo_idempotent_results", "todo_schema_version"),
        *("registered_tools", "tool_registry_revision", "tool_registry_schema_version"),
    )
)
_RESERVED_PREFIXES = ("sqlite_", "pg_", "pragma_", "todos_fts")
_RESERVED_SCHEMAS = frozenset({"information_schema", "mysql", "performance_schema", "sys", "temp"})


def is_reserved(table: AllowedTable) -> bool:
    """Return whether a table is Toolweave's own or a system table, which no setting makes readable (C-03)."""
    name, schema = table.name.casefold(), (table.schema or "").casefold()
    by_name = name in _RESERVED_TABLES or name.startswith(_RESERVED_PREFIXES)
    return by_name or schema in _RESERVED_SCHEMAS or schema.startswith("pg_")
