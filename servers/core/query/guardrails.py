"""Check every query by a chain of guardrails; one that refuses is named, and the query is not run (D-12).

The chain is our own rules on tables, columns, operators and the limit, the operator's pattern of forbidden texts, and
the operator's own function.
"""

import asyncio
import concurrent.futures
import importlib
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import regex  # type: ignore[import-untyped]
from loguru import logger

from toolweave.config.settings import AllowedTable, Settings
from toolweave.errors import ConfigError
from toolweave.servers.core.query.databases import Catalogue
from toolweave.servers.core.query.request import TableQuery
from toolweave.servers.error_codes import GUARDRAIL, ToolFailed

_PATTERN_SETTING = "TOOLWEAVE_QUERY_FORBIDDEN"
# Some patterns take ages for some texts: what is not known by then counts as forbidden.
PATTERN_LIMIT_S = 0.5
_FUNCTION_SETTING = "TOOLWEAVE_QUERY_GUARDRAIL"
_FUNCTION_FIX = "Name a function that takes a query, as module:attr, or unset it."
FUNCTION_LIMIT_S = 1.0
MOST_AT_ONCE = 8
_LONGEST_REASON = 300
_ASK_OPERATOR = "Ask the operator to look into the server's log."


@dataclass(frozen=True, slots=True)
class QueryRefusal:
    """Why a query may not be run, in words for the caller."""

    reason: str
    suggestion: str | None = None


Check = Callable[[TableQuery], Awaitable[QueryRefusal | None]]


async def guardrails(settings: Settings, catalogue: Catalogue) -> Mapping[str, Check]:
    """Make the chain of checks, by the names of their rules and in their order.

    Raises:
        ConfigError: a setting of a guardrail cannot be used.
    """
    chain: dict[str, Check] = {
        "table_allow_list": partial(_check_table, catalogue),
        "column_allow_list": partial(_check_columns, catalogue),
        "operators": partial(_check_operators, catalogue),
        "limit_cap": partial(_check_limit, settings.query_max_rows),
    }
    if settings.query_forbidden:
        chain["forbidden_pattern"] = _forbidden_pattern(settings.query_forbidden)
    if settings.query_guardrail:
        chain["own_guardrail"] = await _own_guardrail(settings.query_guardrail)
    return chain


async def refuse_by(chain: Mapping[str, Check], query: TableQuery) -> None:
    """Run each check in turn.

    Raises:
        ToolFailed: one refuses; names its rule.
    """
    for rule, check in chain.items():
        if refusal := await check(query):
            message = f"The guardrail '{rule}' refused the query: {refusal.reason}"
            raise ToolFailed(GUARDRAIL, message, refusal.suggestion)


async def _check_table(catalogue: Catalogue, query: TableQuery) -> QueryRefusal | None:
    """Let only allowed tables through; one that does not exist is refused in the same words."""
    if query.table in catalogue.labels:
        return None
    message = "Parameter 'table' must be one of the tables that may be read."
    return QueryRefusal(message, f"Use {', '.join(catalogue.labels)}.")


async def _check_columns(catalogue: Catalogue, query: TableQuery) -> QueryRefusal | None:
    """Let only columns through that are there and may be read, wherever they are named."""
    named = dict(reversed([(column, place) for place, column in query.named_columns()]))
    table = await catalogue.table(query.table, named)
    for column, place in reversed(named.items()):
        if column not in table.columns:
            message = f"Parameter '{place}' must be a column of '{query.table}' that may be read."
            return QueryRefusal(message, f"Use {', '.join(table.columns)}.")
    return None


async def _check_operators(catalogue: Catalogue, query: TableQuery) -> QueryRefusal | None:
    """Let a column be compared and ordered by only as makes sense for what it holds."""
    columns = (await catalogue.table(query.table)).columns
    for condition in query.filters.conditions():
        kind = columns[condition.column].kind
        if condition.op not in kind.operators:
            must = f"must use one of {', '.join(kind.operators)}: '{condition.column}' holds {kind.holds}."
            return QueryRefusal(f"Parameter '{condition.place}' {must}")
    for ordering in query.order_by:
        kind = columns[ordering.column].kind
        if not kind.is_orderable:
            must = f"must be another column: '{ordering.column}' holds {kind.holds}."
            return QueryRefusal(f"Parameter '{ordering.place}' {must}")
    return None


async def _check_limit(most: int, query: TableQuery) -> QueryRefusal | None:
    """Let no query ask for more rows than the operator allows."""
    if query.limit <= most:
        return None
    return QueryRefusal(
        f"Parameter 'limit' must be at most {most}.", f"Ask for at most {most} rows, or filter by more."
    )


def _forbidden_pattern(pattern: str) -> Check:
    """Look for the operator's pattern in every text that a column is compared with."""
    try:
        compiled = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            f"it is not a regular expression: {error}.", source=_PATTERN_SETTING, fix="Correct it, or unset it."
        ) from None

    def check(texts: list[tuple[str, str]]) -> QueryRefusal | None:
        end = time.monotonic() + PATTERN_LIMIT_S
        for place, text in texts:
            try:
                # Others may work meanwhile.
                found = compiled.search(text, concurrent=True, timeout=max(0.001, end - time.monotonic()))
            except TimeoutError:
                return QueryRefusal(f"Parameter '{place}' could not be checked in time.", "Compare with shorter texts.")
            if found:
                message = f"Parameter '{place}' must be a text without what the operator forbids."
                return QueryRefusal(message, "Compare with other texts.")
        return None

    async def check_texts(query: TableQuery) -> QueryRefusal | None:
        texts = list(query.texts())
        return await asyncio.to_thread(check, texts) if texts else None

    return check_texts


async def _own_guardrail(target: str) -> Check:
    """Load `module:attr`: a function, sync or async, that is given the query and returns None or why it refuses."""
    function = await asyncio.to_thread(_loaded, target)
    turns = asyncio.Semaphore(MOST_AT_ONCE)

    async def check(query: TableQuery) -> QueryRefusal | None:
        if turns.locked():
            return QueryRefusal("it is busy with other queries.", "Try again in a moment.")
        await turns.acquire()
        deciding = asyncio.ensure_future(_answer(function, query))
        # A function that hangs keeps its turn, so that at most MOST_AT_ONCE can hang.
        deciding.add_done_callback(lambda _: turns.release())
        try:
            await asyncio.wait({deciding}, timeout=FUNCTION_LIMIT_S)
        finally:
            deciding.cancel()
        return _decision(deciding)

    return check


def _decision(deciding: "asyncio.Future[Any]") -> QueryRefusal | None:
    if not deciding.done() or deciding.cancelled():
        logger.error("the guardrail of {} did not answer within {:g} s", _FUNCTION_SETTING, FUNCTION_LIMIT_S)
        return QueryRefusal("it did not answer in time.", _ASK_OPERATOR)
    if error := deciding.exception():
        logger.opt(exception=error).error("the guardrail of {} failed", _FUNCTION_SETTING)
        return QueryRefusal("it failed.", _ASK_OPERATOR)
    match deciding.result():
        case None:
            return None
        case str(reason):
            return QueryRefusal(reason.strip()[:_LONGEST_REASON] or "it gives no reason.")
    logger.error("the guardrail of {} returned neither None nor a text", _FUNCTION_SETTING)
    return QueryRefusal("it answered neither yes nor no.", _ASK_OPERATOR)


async def _answer(function: Callable[[TableQuery], Any], query: TableQuery) -> Any:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    answer = function(query) if is_async else await _on_own_thread(partial(function, query))
    try:
        return await answer if inspect.isawaitable(answer) else answer
    except SystemExit:
        raise RuntimeError("it raised SystemExit") from None


async def _on_own_thread(call: Callable[[], Any]) -> Any:
    """Call it on a thread that the process does not wait for at its end."""
    answered: concurrent.futures.Future[Any] = concurrent.futures.Future()
    # A caller that stops waiting does not cancel it: the thread goes on.
    answered.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answered.set_result(call())
        except BaseException as error:  # noqa: BLE001  whatever it raises refuses the query
            # What is no Exception would end more than the call.
            harmless = isinstance(error, Exception) and not isinstance(error, StopIteration)
            answered.set_exception(error if harmless else RuntimeError(f"it raised {type(error).__name__}"))

    threading.Thread(target=run, name="query guardrail", daemon=True).start()
    return await asyncio.wrap_future(answered)


def _loaded(target: str) -> Callable[[TableQuery], Any]:
    def wrong(problem: str) -> ConfigError:
        return ConfigError(problem, source=_FUNCTION_SETTING, fix=_FUNCTION_FIX)

    where, _, attribute = target.strip().rpartition(":")
    if not where or not attribute:
        raise wrong("it names no module and attribute.")
    try:
        function: Any = importlib.import_module(where)
        for name in attribute.split("."):
            function = getattr(function, name)
    except AttributeError:
        raise wrong(f"the module {where} has no {attribute}.") from None
    except (Exception, SystemExit) as error:
        logger.opt(exception=error).error("the guardrail of {} cannot be loaded", _FUNCTION_SETTING)
        raise wrong(f"the module {where} cannot be imported: {type(error).__name__}.") from error
    if not callable(function):
        raise wrong(f"{target} cannot be called.")
    return function  # type: ignore[no-any-return]


_CLOSED_TABLES = frozenset(
    (
        "alembic_version",
        # the LangGraph API's
        *("assistants", "assistant_versions", "checkpoints", "checkpoint_blobs", "checkpoint_migrations"),
        *("checkpoint_writes", "crons", "kept_writes", "run_events", "runs", "store", "store_migrations"),
        *("store_vectors", "thread_events", "thread_sequences", "threads", "vector_migrations", "webhook_deliveries"),
        "writes",
        # the todo server's, beside the todos; the registry's
        *("todo_idempotent_results", "todo_schema_version"),
        *("registered_tools", "tool_registry_revision", "tool_registry_schema_version"),
    )
)
_CLOSED_PREFIXES = ("sqlite_", "pg_", "pragma_", "todos_fts")
_CLOSED_SCHEMAS = frozenset({"information_schema", "mysql", "performance_schema", "sys", "temp"})


def is_closed(table: AllowedTable) -> bool:
    """Say whether a table is Toolweave's own or describes the database: no setting opens it to queries (C-03)."""
    name, schema = table.name.casefold(), (table.schema or "").casefold()
    by_name = name in _CLOSED_TABLES or name.startswith(_CLOSED_PREFIXES)
    return by_name or schema in _CLOSED_SCHEMAS or schema.startswith("pg_")
