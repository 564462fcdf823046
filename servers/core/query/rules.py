"""Hold our own guardrails: tables, columns, operators, limit and forbidden patterns (D-12)."""

from toolweave.servers.core.query.catalogue import Catalogue
from toolweave.servers.core.query.guardrails import Guardrail, Refusal
from toolweave.servers.core.query.models import Query
from toolweave.servers.core.query.values import in_words


def table_allow_list(catalogue: Catalogue) -> Guardrail:
    """Let only allowed tables through; one that does not exist is refused in the same words."""

    async def check(query: Query) -> Refusal | None:
        if catalogue.allowed(query.table) is not None:
            return None
        return Refusal(
            "Parameter 'table' must be one of the tables that may be read.", f"Use {', '.join(catalogue.labels)}."
        )

    return Guardrail("table_allow_list", check)


def column_allow_list(catalogue: Catalogue) -> Guardrail:
    """Let only columns through that are there and may be read, wherever they are named."""

    async def check(query: Query) -> Refusal | None:
        named = dict(reversed([(column, place) for place, column in query.named_columns()]))
        table = await catalogue.table(query.table, named)
        for column, place in reversed(named.items()):
            if column not in table.columns:
                return Refusal(
                    f"Parameter '{place}' must be a column of '{query.table}' that may be read.",
                    f"Use {', '.join(table.columns)}.",
                )
        return None

    return Guardrail("column_allow_list", check)


def operators(catalogue: Catalogue) -> Guardrail:
    """Let a column be compared and ordered by only as makes sense for what it holds."""

    async def check(query: Query) -> Refusal | None:
        columns = (await catalogue.table(query.table)).columns
        for condition in query.filters.conditions():
            column = columns[condition.column]
            if condition.op not in column.operators:
                return Refusal(
                    f"Parameter '{condition.place}' must use one of {', '.join(column.operators)}: "
                    f"'{column.name}' holds {in_words(column.kind)}."
                )
        for ordering in query.order_by:
            column = columns[ordering.column]
            if not column.is_orderable:
                return Refusal(
                    f"Parameter '{ordering.place}' must be another column: '{column.name}' holds "
                    f"{in_words(column.kind)}."
                )
        return None

    return Guardrail("operators", check)


def limit_cap(most: int) -> Guardrail:
    """Let no query ask for more rows than the operator allows."""

    async def check(query: Query) -> Refusal | None:
        if query.limit <= most:
            return None
        return Refusal(
            f"Parameter 'limit' must be at most {most}.",
            f"Ask for at most {most} rows, or filter by more.",
        )

    return Guardrail("limit_cap", check)
