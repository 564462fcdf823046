"""Read TOOLWEAVE_QUERY_TABLES: the tables that query_database may read, each with its columns if not all (C-03)."""

import re
from dataclasses import dataclass

from toolweave.errors import ConfigError

_SETTING = "TOOLWEAVE_QUERY_TABLES"
_FIX = 'Write tables as in: todos, customers(id, name), sales.orders, "Order items".'
_NAME = r'(?:"(?:[^"]|"")+"|[^\s",.()]+)'
_COLUMNS = rf"\(\s*(?P<columns>{_NAME}(?:\s*,\s*{_NAME})*)\s*,?\s*\)"
_ENTRY = re.compile(rf"\s*(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\s*(?:{_COLUMNS})?\s*(?:,\s*|$)")
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class AllowedTable:
    """A table that may be read; `schema` None stands for the database's own choice, `columns` None for all."""

    name: str
    schema: str | None = None
    columns: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        """Return the name that callers use."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


def query_tables(text: str) -> tuple[AllowedTable, ...]:
    """Split at commas; each part is `table`, `schema.table` or either with `(column, …)`, odd names in double quotes.

    Raises:
        ConfigError: it is not such a list, or names a table or a column of one twice; says where.
    """
    tables: dict[str, AllowedTable] = {}
    place = 0
    while place < len(text) and text[place:].strip(" \t\r\n,"):
        found = _ENTRY.match(text, place)
        if found is None:
            raise _wrong(f"this is no list of tables from {text[place:].strip()[:_MOST_SHOWN]!r} on.")
        table = _table(found)
        if table.label in tables:
            raise _wrong(f"it names the table {table.label} twice.")
        tables[table.label] = table
        place = found.end()
    return tuple(tables.values())


def _table(found: re.Match[str]) -> AllowedTable:
    name, schema = _unquoted(found["name"]), found["schema"]
    columns = tuple(_unquoted(part) for part in re.findall(_NAME, found["columns"])) if found["columns"] else None
    if columns and len(set(columns)) < len(columns):
        raise _wrong(f"it names a column of {name} twice.")
    return AllowedTable(name, _unquoted(schema) if schema else None, columns)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _wrong(what: str) -> ConfigError:
    return ConfigError(what, source=_SETTING, fix=_FIX)
