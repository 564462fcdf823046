"""Keep todos: create, list, change, search and delete them, each in one transaction (T-13)."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.servers.todo import text_search
from toolweave.servers.todo.models import Fields, Kept, Page, Selection, Todo
from toolweave.servers.todo.opening import TodoDatabase
from toolweave.servers.todo.schema import IDEMPOTENT_RESULTS, TODOS

_KEYS_KEPT_FOR = timedelta(days=30)
_FIELDS = tuple(Todo.__annotations__)


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


class TodoRepository:
    """The todos of one database; `clock` is a parameter so that tests own the time."""

    def __init__(self, database: TodoDatabase, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def create(self, fields: Fields, *, key: str | None = None) -> Kept:
        """Add a todo; with the key of an earlier call return that call's todo instead (T-03)."""
        now = _instant(self._clock())
        row = {"status": "active", "priority": "medium", "tags": [], **fields}
        row |= {"tags": _json(row["tags"]), "created_at": now, "updated_at": now}
        async with self._database.write() as connection:
            if kept := await self._kept(connection, "create_todo", key):
                return kept
            result = await connection.execute(TODOS.insert().values(row).returning(TODOS))
            return await self._keep(connection, "create_todo", key, _todo(result.mappings().one()))

    async def list_page(self, selection: Selection, *, limit: int, after: int = 0) -> Page:
        """Return up to `limit` todos of the selection whose ids come after `after`, and how many it has in all."""
        conditions = _conditions(selection)
        statement = sa.select(TODOS).where(*conditions, TODOS.c.id > after).order_by(TODOS.c.id).limit(limit + 1)
        async with self._database.read() as connection:
            todos = [_todo(row) for row in (await connection.execute(statement)).mappings()]
            total = await connection.scalar(sa.select(sa.func.count()).select_from(TODOS).where(*conditions))
        page = todos[:limit]
        return Page(todos=page, total=total or 0, next_after=page[-1]["id"] if len(todos) > limit else None)

    async def update(self, todo_id: int, fields: Fields) -> Todo | None:
        """Write the given fields of a todo and return it; None when there is none of that id."""
        now = _instant(self._clock())
        values: dict[str, Any] = {**fields, "updated_at": now}
        if "tags" in fields:
            values["tags"] = _json(fields["tags"])
        if fields.get("status") == "active":
            values["completed_at"] = None
        elif fields.get("status") == "completed":
            values["completed_at"] = sa.func.coalesce(TODOS.c.completed_at, now)
        statement = TODOS.update().where(TODOS.c.id == todo_id).values(values).returning(TODOS)
        async with self._database.write() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return _todo(row) if row else None

    async def search(self, query: str, *, limit: int) -> list[Todo]:
        """Return up to `limit` todos whose title, description or tags have every word of the query."""
        by_index = text_search.by_index(query) if self._database.full_text else None
        by_containment = text_search.by_containment(query, without_accents=self._database.is_postgresql)
        async with self._database.read() as connection:
            rows = (await connection.execute(by_index.limit(limit))).mappings().all() if by_index is not None else []
            if not rows:
                rows = (await connection.execute(by_containment.limit(limit))).mappings().all()
        return [_todo(row) for row in rows]

    async def delete(self, todo_id: int, *, key: str | None = None) -> Kept | None:
        """Remove a todo and return what it was; None when there is none of that id."""
        async with self._database.write() as connection:
            if kept := await self._kept(connection, "delete_todo", key):
                return kept
            result = await connection.execute(TODOS.delete().where(TODOS.c.id == todo_id).returning(TODOS))
            row = result.mappings().one_or_none()
            return await self._keep(connection, "delete_todo", key, _todo(row)) if row else None

    async def _kept(self, connection: AsyncConnection, tool: str, key: str | None) -> Kept | None:
        if key is None:
            return None
        kept = IDEMPOTENT_RESULTS
        result = await connection.scalar(sa.select(kept.c.result).where(kept.c.tool == tool, kept.c.key == key))
        return Kept(json.loads(result), replayed=True) if result else None

    async def _keep(self, connection: AsyncConnection, tool: str, key: str | None, todo: Todo) -> Kept:
        if key is not None:
            now = self._clock()
            kept = IDEMPOTENT_RESULTS
            await connection.execute(kept.delete().where(kept.c.created_at < _instant(now - _KEYS_KEPT_FOR)))
            row = {"tool": tool, "key": key, "result": _json(todo), "created_at": _instant(now)}
            await connection.execute(kept.insert().values(row))
        return Kept(todo, replayed=False)


def _conditions(selection: Selection) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if selection.status:
        conditions.append(TODOS.c.status == selection.status)
    if selection.priority:
        conditions.append(TODOS.c.priority == selection.priority)
    if selection.tag:
        # A tag stands in the column as JSON text, its quotes escaped: the text with its own quotes around is exact.
        conditions.append(TODOS.c.tags.contains(_json(selection.tag), autoescape=True))
    if selection.due_before:
        conditions.append(TODOS.c.due_date < selection.due_before)
    return conditions


def _todo(row: sa.RowMapping) -> Todo:
    # The row's own keys are a kind of str that serialisers handle ten times slower.
    return cast("Todo", {name: row[name] for name in _FIELDS} | {"tags": json.loads(row["tags"])})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _instant(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
