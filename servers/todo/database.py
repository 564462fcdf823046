"""Describe and open the todo database, and store todos: each call is one transaction (T-13)."""

import json
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection
from typing_extensions import TypedDict

from toolweave.config.settings import Settings
from toolweave.servers.databases.database import BUSY_TIMEOUT_S, Database, open_database
from toolweave.servers.databases.engine import DatabaseKind

VERSION = 1
METADATA = sa.MetaData()
# Dates are compared as texts by code point, whatever collation a PostgreSQL database has.
_DATE_TYPE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TODOS = sa.Table(
    "todos",
    METADATA,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("priority", sa.Text, nullable=False),
    sa.Column("due_date", _DATE_TYPE),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
    sa.Column("completed_at", sa.Text),
    sqlite_autoincrement=True,
)
IDEMPOTENT_RESULTS = sa.Table(
    "todo_idempotent_results",
    METADATA,
    sa.Column("tool", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("result", sa.Text, nullable=False),
    sa.Column("created_at", _DATE_TYPE, nullable=False, index=True),
)
SCHEMA_VERSION = sa.Table("todo_schema_version", METADATA, sa.Column("version", sa.Integer, nullable=False))
FULL_TEXT = sa.table("todos_fts", sa.column("rowid"), sa.column("todos_fts"))
_FULL_TEXT_DDL = (
    """
    CREATE VIRTUAL TABLE todos_fts USING fts5(
        title, description, tags,
        content='todos', content_rowid='id', tokenize='unicode61 remove_diacritics 2', prefix='2 3'
    )
    """,
    """
    CREATE TRIGGER todos_fts_insert AFTER INSERT ON todos BEGIN
        INSERT INTO todos_fts(rowid, title, description, tags)
        VALUES (new.id, new.title, new.description, new.tags);
    END
    """,
    """
    CREATE TRIGGER todos_fts_delete AFTER DELETE ON todos BEGIN
        INSERT INTO todos_fts(todos_fts, rowid, title, description, tags)
        VALUES ('delete', old.id, old.title, old.description, old.tags);
    END
    """,
    """
    CREATE TRIGGER todos_fts_update AFTER UPDATE OF title, description, tags ON todos BEGIN
        INSERT INTO todos_fts(todos_fts, rowid, title, description, tags)
        VALUES ('delete', old.id, old.title, old.description, old.tags);
        INSERT INTO todos_fts(rowid, title, description, tags)
        VALUES (new.id, new.title, new.description, new.tags);
    END
    """,
)


async def create_tables(connection: AsyncConnection) -> None:
    """Create the tables and, if SQLite has FTS5, the full-text index."""
    await connection.run_sync(METADATA.create_all)
    has_fts5 = sa.select(sa.func.sqlite_compileoption_used("ENABLE_FTS5"))
    if connection.dialect.name == "sqlite" and await connection.scalar(has_fts5):
        for statement in _FULL_TEXT_DDL:
            await connection.execute(sa.text(statement))


async def has_full_text(connection: AsyncConnection) -> bool:
    """Return whether this database has the full-text index."""
    return connection.dialect.name == "sqlite" and await connection.run_sync(
        lambda sync: sa.inspect(sync).has_table(FULL_TEXT.name)
    )


TODO_DATABASE = DatabaseKind(
    name="todo database",
    setting="TOOLWEAVE_TODO_DATABASE_URL",
    version=VERSION,
    version_table=SCHEMA_VERSION,
    create=create_tables,
)


def database_url(settings: Settings) -> str:
    """Return the URL from the settings, by default of the SQLite file in the data folder."""
    return settings.todo_database_url or f"sqlite+aiosqlite:///{settings.data_dir.absolute() / 'todo.db'}"


def open_todo_database(url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> AbstractAsyncContextManager[Database]:
    """Open the todo database at a SQLAlchemy URL; raises as `open_database`."""
    return open_database(url, TODO_DATABASE, busy_timeout_s=busy_timeout_s)


Priority = Literal["low", "medium", "high"]
Status = Literal["active", "completed"]
_KEY_RETENTION = timedelta(days=30)
_MAX_WORDS = 16
# The bm25 weights of title, description and tags.
_COLUMN_WEIGHTS = (10.0, 2.0, 5.0)
_ACCENTS = "[\u0300-\u036f]"


class Todo(TypedDict):
    """One todo as the tools return it; dates and times are ISO 8601 texts, times in UTC (T-13)."""

    id: int
    title: str
    description: str | None
    status: Status
    priority: Priority
    due_date: str | None
    tags: list[str]
    created_at: str
    updated_at: str
    completed_at: str | None


_FIELDS = tuple(Todo.__annotations__)


@dataclass(frozen=True, slots=True)
class TodoFilter:
    """The conditions of a listing; None means no condition. `due_before` has the form of `Todo.due_date`."""

    status: Status | None = None
    priority: Priority | None = None
    tag: str | None = None
    due_before: str | None = None


@dataclass(frozen=True, slots=True)
class TodoPage:
    """Todos in the order of their ids; `next_after` is the id after which the next page begins, None at the end."""

    todos: list[Todo]
    total: int
    next_after: int | None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The todo of a write; `replayed` if it is the stored result of an earlier call with the same key (T-03)."""

    todo: Todo
    replayed: bool


def full_text_query(query: str) -> sa.Select[tuple[object, ...]] | None:
    """Return the full-text SELECT of the todos with every word of the query, best first; None without a word.

    Each word is quoted, so that it cannot contain full-text syntax, and matches words that begin with it.
    """
    words = [word for word in _words(query) if any(character.isalnum() for character in word)]
    if not words:
        return None
    expression = " AND ".join('"' + word.replace('"', '""') + '"*' for word in words)
    matches = sa.text("todos_fts MATCH :expression").bindparams(expression=expression)
    rank = sa.func.bm25(sa.literal_column("todos_fts"), *_COLUMN_WEIGHTS)
    joined = sa.join(FULL_TEXT, TODOS, FULL_TEXT.c.rowid == TODOS.c.id)
    return sa.select(TODOS).select_from(joined).where(matches).order_by(rank, TODOS.c.id)


def substring_query(query: str, *, without_accents: bool = False) -> sa.Select[tuple[object, ...]]:
    """Return the SELECT of the todos that contain every word of the query, those with all words in the title first.

    Any database supports it. `without_accents` ignores accents on PostgreSQL, as SQLite's index does.
    """
    contains = _contains_without_accents if without_accents else _contains
    searched = (TODOS.c.title, TODOS.c.description, TODOS.c.tags)
    words = _words(query)
    conditions = [sa.or_(*(contains(column, word) for column in searched)) for word in words]
    in_title = sa.and_(sa.true(), *(contains(TODOS.c.title, word) for word in words))
    return sa.select(TODOS).where(*conditions).order_by(sa.case((in_title, 0), else_=1), TODOS.c.id)


def _contains(column: sa.Column[str], word: str) -> sa.ColumnElement[bool]:
    return column.icontains(word, autoescape=True)


def _contains_without_accents(column: sa.Column[str], word: str) -> sa.ColumnElement[bool]:
    plain = sa.func.regexp_replace(sa.func.pg_catalog.normalize(column, "NFKD"), _ACCENTS, "", "g")
    # Only a text with multi-byte letters can have accents, and removing them makes the search ten times slower.
    is_ascii = sa.func.octet_length(column) == sa.func.length(column)
    return sa.func.strpos(sa.func.lower(sa.case((is_ascii, column), else_=plain)), _strip_accents(word)) > 0


def _strip_accents(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    # A word that consists of accents only is searched unchanged.
    return "".join(letter for letter in decomposed if not 0x300 <= ord(letter) < 0x370).lower() or word


def _words(query: str) -> list[str]:
    return query.split()[:_MAX_WORDS]


class TodoRepository:
    """The todos in one database; `clock` is a parameter for tests."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._clock = clock

    async def create(self, fields: Mapping[str, Any], *, key: str | None = None) -> WriteResult:
        """Create a todo; with the key of an earlier call, return that call's todo instead (T-03)."""
        now = _iso_time(self._clock())
        row = {"status": "active", "priority": "medium", "tags": [], **fields}
        row |= {"tags": _to_json(row["tags"]), "created_at": now, "updated_at": now}
        return cast("WriteResult", await self._write("create_todo", key, TODOS.insert().values(row).returning(TODOS)))

    async def list_page(self, todo_filter: TodoFilter, *, limit: int, after: int = 0) -> TodoPage:
        """Return up to `limit` todos that match the filter and have ids above `after`, and the total of matches."""
        conditions = _conditions(todo_filter)
        statement = sa.select(TODOS).where(*conditions, TODOS.c.id > after).order_by(TODOS.c.id).limit(limit + 1)
        async with self._database.read() as connection:
            todos = [_to_todo(row) for row in (await connection.execute(statement)).mappings()]
            total = await connection.scalar(sa.select(sa.func.count()).select_from(TODOS).where(*conditions))
        page = todos[:limit]
        return TodoPage(todos=page, total=total or 0, next_after=page[-1]["id"] if len(todos) > limit else None)

    async def update(self, todo_id: int, fields: Mapping[str, Any]) -> Todo | None:
        """Change the given fields of a todo and return it; None if there is no todo with this id."""
        now = _iso_time(self._clock())
        values: dict[str, Any] = {**fields, "updated_at": now}
        if "tags" in fields:
            values["tags"] = _to_json(fields["tags"])
        if fields.get("status") == "active":
            values["completed_at"] = None
        elif fields.get("status") == "completed":
            values["completed_at"] = sa.func.coalesce(TODOS.c.completed_at, now)
        statement = TODOS.update().where(TODOS.c.id == todo_id).values(values).returning(TODOS)
        written = await self._write("update_todo", None, statement)
        return written.todo if written else None

    async def search(self, query: str, *, limit: int) -> list[Todo]:
        """Return up to `limit` todos whose title, description or tags contain every word of the query."""
        containing = substring_query(query, without_accents=self._database.is_postgresql)
        async with self._database.read() as connection:
            indexed = full_text_query(query) if await has_full_text(connection) else None
            rows = (await connection.execute(indexed.limit(limit))).mappings().all() if indexed is not None else []
            if not rows:
                rows = (await connection.execute(containing.limit(limit))).mappings().all()
        return [_to_todo(row) for row in rows]

    async def delete(self, todo_id: int, *, key: str | None = None) -> WriteResult | None:
        """Delete a todo and return it; None if there is no todo with this id."""
        return await self._write("delete_todo", key, TODOS.delete().where(TODOS.c.id == todo_id).returning(TODOS))

    async def _write(self, tool: str, key: str | None, statement: Any) -> WriteResult | None:
        """Execute a statement that returns a todo or none, once for each key: later calls get the first result."""
        results = IDEMPOTENT_RESULTS
        stored = sa.select(results.c.result).where(results.c.tool == tool, results.c.key == key)
        async with self._database.write() as connection:
            if key is not None and (result := await connection.scalar(stored)):
                return WriteResult(json.loads(result), replayed=True)
            row = (await connection.execute(statement)).mappings().one_or_none()
            todo = _to_todo(row) if row else None
            if key is not None and todo is not None:
                now = self._clock()
                await connection.execute(results.delete().where(results.c.created_at < _iso_time(now - _KEY_RETENTION)))
                new = {"tool": tool, "key": key, "result": _to_json(todo), "created_at": _iso_time(now)}
                await connection.execute(results.insert().values(new))
        return WriteResult(todo, replayed=False) if todo else None


def _conditions(todo_filter: TodoFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if todo_filter.status:
        conditions.append(TODOS.c.status == todo_filter.status)
    if todo_filter.priority:
        conditions.append(TODOS.c.priority == todo_filter.priority)
    if todo_filter.tag:
        # The column contains each tag as a JSON string, so the quoted and escaped tag matches exactly.
        conditions.append(TODOS.c.tags.contains(_to_json(todo_filter.tag), autoescape=True))
    if todo_filter.due_before:
        conditions.append(TODOS.c.due_date < todo_filter.due_before)
    return conditions


def _to_todo(row: sa.RowMapping) -> Todo:
    # A row's keys are of a subclass of str, which serializers handle ten times slower.
    return cast("Todo", {name: row[name] for name in _FIELDS} | {"tags": json.loads(row["tags"])})


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _iso_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
