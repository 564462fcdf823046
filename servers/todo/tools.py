"""The five todo tools (T-13)."""

from typing import Any, cast

from fastmcp import Context
from fastmcp.tools import ToolResult

from toolweave.servers.call_meta import idempotency_key
from toolweave.servers.envelope import failure, success
from toolweave.servers.error_codes import INVALID_PARAMETER, MISSING_PARAMETER, NOT_FOUND
from toolweave.servers.todo.cursor import decode_cursor, encode_cursor
from toolweave.servers.todo.models import Fields, Kept, Selection
from toolweave.servers.todo.parameters import (
    Cursor,
    Description,
    DueBefore,
    DueDate,
    Limit,
    NewStatus,
    PriorityFilter,
    PriorityLevel,
    Query,
    StatusFilter,
    TagFilter,
    Tags,
    Title,
    TodoId,
)
from toolweave.servers.todo.repository import TodoRepository
from toolweave.servers.tool_declaration import Absent


class TodoTools:
    """The tools as methods; their docstrings and annotations are what a model reads about them."""

    def __init__(self, todos: TodoRepository) -> None:
        self._todos = todos

    async def create_todo(
        self,
        context: Context,
        title: Title,
        description: Description | Absent = None,
        priority: PriorityLevel = "medium",
        due_date: DueDate | Absent = None,
        tags: Tags | Absent = None,
    ) -> ToolResult:
        """Add a new todo (task) to the list and return it with its id.

        Use it whenever something is to be remembered, planned or noted.
        """
        fields = Fields(
            title=title,
            description=description or None,
            priority=priority,
            due_date=due_date or None,
            tags=tags or [],
        )
        return _kept(await self._todos.create(fields, key=idempotency_key(context)))

    async def list_todos(
        self,
        status: StatusFilter = "all",
        priority: PriorityFilter | Absent = None,
        tag: TagFilter | Absent = None,
        due_before: DueBefore | Absent = None,
        limit: Limit = 50,
        cursor: Cursor | Absent = None,
    ) -> ToolResult:
        """Show the todos (tasks), all or those with a status, priority, tag or due date, oldest first.

        Use it for an overview; find a certain one with search_todos.
        """
        selection = Selection(None if status == "all" else status, priority, tag, due_before or None)
        after = decode_cursor(cursor, selection) if cursor else 0
        if after is None:
            return failure(
                INVALID_PARAMETER,
                "Parameter 'cursor' must be the next_cursor of a previous answer to the same filters.",
                "Leave cursor out to start from the beginning.",
            )
        page = await self._todos.list_page(selection, limit=limit, after=after)
        next_cursor = encode_cursor(page.next_after, selection) if page.next_after else None
        return success(page.todos, count=len(page.todos), total=page.total, next_cursor=next_cursor)

    async def update_todo(
        self,
        id: TodoId,  # noqa: A002  the tool's parameter is called so
        title: Title | Absent = None,
        description: Description | Absent = None,
        priority: PriorityLevel | Absent = None,
        due_date: DueDate | Absent = None,
        tags: Tags | Absent = None,
        status: NewStatus | Absent = None,
    ) -> ToolResult:
        """Change a todo (task), or mark it completed; what is left out stays as it is.

        An empty description or due_date, or an empty list of tags, removes what was there.
        """
        given: dict[str, Any] = {
            "title": title,
            "description": description,
            "priority": priority,
            "due_date": due_date,
            "tags": tags,
            "status": status,
        }
        # An empty text is given and clears the field, None was not given.
        changes = {name: None if value == "" else value for name, value in given.items() if value is not None}
        if not changes:
            return failure(
                MISSING_PARAMETER,
                f"update_todo needs at least one of {', '.join(given)} to change.",
                "Say what to change.",
            )
        todo = await self._todos.update(id, cast("Fields", changes))
        return success(todo) if todo else _no_such_todo(id)

    async def search_todos(self, query: Query, limit: Limit = 20) -> ToolResult:
        """Find todos (tasks) by words in their title, description or tags, best match first.

        Use it when a part of its wording is known, also to learn the id that update_todo and delete_todo need.
        """
        todos = await self._todos.search(query, limit=limit)
        return success(todos, count=len(todos))

    async def delete_todo(self, context: Context, id: TodoId) -> ToolResult:  # noqa: A002  as in update_todo
        """Remove a todo (task) for good and return what it was.

        Use it for what is not wanted any more; there is no way back.
        """
        kept = await self._todos.delete(id, key=idempotency_key(context))
        return _kept(kept) if kept else _no_such_todo(id)


def _kept(kept: Kept) -> ToolResult:
    return success(kept.todo, replayed=True) if kept.replayed else success(kept.todo)


def _no_such_todo(todo_id: int) -> ToolResult:
    return failure(
        NOT_FOUND, f"There is no todo with the id {todo_id}.", "Find the right id with list_todos or search_todos."
    )
