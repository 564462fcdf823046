"""Build the MCP server `todo`: its five tools and their parameters (T-13)."""

import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from fastmcp import Context, FastMCP
from fastmcp.tools import ToolResult
from pydantic import AfterValidator, Field, StringConstraints

from toolweave.servers import tool_server
from toolweave.servers.error_codes import MISSING_PARAMETER, NOT_FOUND
from toolweave.servers.todo.database import (
    Priority,
    Status,
    TodoFilter,
    TodoRepository,
    WriteResult,
    open_todo_database,
)
from toolweave.servers.tool_server import failure, success

_INSTRUCTIONS = (
    "A todo list that is stored in a database. Todos have integer ids: find the id with list_todos or search_todos "
    "before you update or delete one."
)
# The largest integer that every JSON parser reads exactly; SQLite and PostgreSQL store it, too.
_MAX_ID = 2**53 - 1
_LINE_BREAKS = "\n\t"


def check_single_line(text: str) -> str:
    """Return a text without control characters or line breaks unchanged.

    Raises:
        ValueError: the text contains one.
    """
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("must be a single line of text without control characters")
    return text


def normalize_lines(text: str) -> str:
    r"""Return a text with its `\r\n` line breaks replaced by `\n`.

    Raises:
        ValueError: the text contains a control character other than a line feed or tab.
    """
    text = text.replace("\r\n", "\n")
    if any(unicodedata.category(character) == "Cc" and character not in _LINE_BREAKS for character in text):
        raise ValueError("must be text without control characters other than line breaks")
    return text


def normalize_due_date(text: str) -> str:
    """Return `YYYY-MM-DD`, or `YYYY-MM-DDTHH:MM:SSZ` for a time (UTC unless it has an offset); empty stays empty.

    Texts in these forms sort in the order of time.

    Raises:
        ValueError: the text is not an ISO 8601 date or time.
    """
    if not text:
        return text
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise ValueError("must be an ISO 8601 date or time such as 2026-12-24 or 2026-12-24T15:00:00Z") from None
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


_Line = AfterValidator(check_single_line)
_Tag = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50), _Line, AfterValidator(str.lower)
]
_DueDate = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=40), _Line, AfterValidator(normalize_due_date)
]
TodoId = Annotated[
    int,
    Field(strict=True, ge=1, le=_MAX_ID),
    tool_server.WHOLE_NUMBER,
    Field(description="The todo's id, as a listing or search shows it.", examples=[7]),
]
Title = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    _Line,
    Field(description="What is to be done, in one line.", examples=["Buy milk", "Call the dentist"]),
]
Description = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=4000),
    AfterValidator(normalize_lines),
    Field(description="Further details that the title does not contain.", examples=["2 litres, oat"]),
]
PriorityLevel = Annotated[Priority, Field(description="How important it is.", examples=["high"])]
PriorityFilter = Annotated[Priority, Field(description="Only todos of this priority.", examples=["high"])]
DueDate = Annotated[
    _DueDate,
    Field(
        description="When it is due: an ISO 8601 date, or date and time (UTC unless an offset is given).",
        examples=["2026-12-24", "2026-12-24T15:00:00Z"],
    ),
]
Tags = Annotated[
    list[_Tag],
    Field(max_length=20, description="Words to group todos by.", examples=[["shopping", "home"]]),
    AfterValidator(lambda tags: list(dict.fromkeys(tags))),
]
NewStatus = Annotated[
    Status, Field(description="completed marks it done, active opens it again.", examples=["completed"])
]
StatusFilter = Annotated[
    Literal["active", "completed", "all"],
    Field(description="Only those still to do (active), only those done (completed), or all.", examples=["active"]),
]
TagFilter = Annotated[_Tag, Field(description="Only todos with this tag.", examples=["shopping"])]
DueBefore = Annotated[
    _DueDate, Field(description="Only todos due before this ISO 8601 date or time.", examples=["2026-12-24"])
]
Limit = Annotated[
    int,
    Field(strict=True, ge=1, le=100),
    tool_server.WHOLE_NUMBER,
    Field(description="How many todos to return at most.", examples=[20]),
]
Cursor = Annotated[
    str,
    Field(max_length=16, pattern="^[0-9]*$", description="next_cursor of the previous answer, to go on from there."),
]
Query = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    _Line,
    Field(description="Words to look for; a todo matches when it has all of them.", examples=["milk", "dentist"]),
]


class TodoTools:
    """The tools as methods. Models read their docstrings and annotations."""

    def __init__(self, todos: TodoRepository) -> None:
        self._todos = todos

    async def create_todo(
        self,
        context: Context,
        title: Title,
        description: Description | tool_server.Absent = None,
        priority: PriorityLevel = "medium",
        due_date: DueDate | tool_server.Absent = None,
        tags: Tags | tool_server.Absent = None,
    ) -> ToolResult:
        """Add a new todo (task) to the list and return it with its id.

        Use it whenever something is to be remembered, planned or noted.
        """
        fields = {
            "title": title,
            "description": description or None,
            "priority": priority,
            "due_date": due_date or None,
            "tags": tags or [],
        }
        return _write_envelope(await self._todos.create(fields, key=tool_server.idempotency_key(context)))

    async def list_todos(
        self,
        status: StatusFilter = "all",
        priority: PriorityFilter | tool_server.Absent = None,
        tag: TagFilter | tool_server.Absent = None,
        due_before: DueBefore | tool_server.Absent = None,
        limit: Limit = 50,
        cursor: Cursor | tool_server.Absent = None,
    ) -> ToolResult:
        """Show the todos (tasks), all or those with a status, priority, tag or due date, oldest first.

        Use it for an overview; find a certain one with search_todos.
        """
        todo_filter = TodoFilter(None if status == "all" else status, priority, tag, due_before or None)
        page = await self._todos.list_page(todo_filter, limit=limit, after=int(cursor or 0))
        next_cursor = str(page.next_after) if page.next_after else None
        return success(page.todos, count=len(page.todos), total=page.total, next_cursor=next_cursor)

    async def update_todo(
        self,
        id: TodoId,  # noqa: A002  the tool's parameter is called so
        title: Title | tool_server.Absent = None,
        description: Description | tool_server.Absent = None,
        priority: PriorityLevel | tool_server.Absent = None,
        due_date: DueDate | tool_server.Absent = None,
        tags: Tags | tool_server.Absent = None,
        status: NewStatus | tool_server.Absent = None,
    ) -> ToolResult:
        """Change a todo (task), or mark it completed; omitted fields stay as they are.

        An empty description or due_date, or an empty list of tags, removes the previous value.
        """
        fields: dict[str, Any] = {
            "title": title,
            "description": description,
            "priority": priority,
            "due_date": due_date,
            "tags": tags,
            "status": status,
        }
        # An empty text clears the field; None means that the caller omitted it.
        changes = {name: None if value == "" else value for name, value in fields.items() if value is not None}
        if not changes:
            return failure(MISSING_PARAMETER, f"update_todo needs at least one of {', '.join(fields)} to change.")
        todo = await self._todos.update(id, changes)
        return success(todo) if todo else _no_such_todo(id)

    async def search_todos(self, query: Query, limit: Limit = 20) -> ToolResult:
        """Find todos (tasks) by words in their title, description or tags, best match first.

        Use it when you know a part of its wording, also to get the id that update_todo and delete_todo need.
        """
        todos = await self._todos.search(query, limit=limit)
        return success(todos, count=len(todos))

    async def delete_todo(self, context: Context, id: TodoId) -> ToolResult:  # noqa: A002  as in update_todo
        """Remove a todo (task) for good and return it.

        Use it for a todo that is not wanted any more; it cannot be restored.
        """
        result = await self._todos.delete(id, key=tool_server.idempotency_key(context))
        return _write_envelope(result) if result else _no_such_todo(id)


def _write_envelope(result: WriteResult) -> ToolResult:
    return success(result.todo, replayed=True) if result.replayed else success(result.todo)


def _no_such_todo(todo_id: int) -> ToolResult:
    return failure(
        NOT_FOUND, f"There is no todo with the id {todo_id}.", "Find the right id with list_todos or search_todos."
    )


@asynccontextmanager
async def open_todo_server(database_url: str) -> AsyncIterator[FastMCP[None]]:
    """Open the database and build the server; the context closes the database.

    Raises:
        ConfigError: the URL is invalid, or its driver is not installed.
        PersistenceError: the database cannot be opened, or a newer Toolweave wrote it.
    """
    async with open_todo_database(database_url) as database:
        yield build_todo_server(TodoRepository(database))


def build_todo_server(todos: TodoRepository, *, tool_timeout_s: float = tool_server.TOOL_TIMEOUT_S) -> FastMCP[None]:
    """Build the server with its five tools; it stops a call after `tool_timeout_s` seconds (T-05, T-13)."""
    server, tools = tool_server.tool_server("todo", _INSTRUCTIONS, timeout_s=tool_timeout_s), TodoTools(todos)
    server.add_tool(tool_server.declare_tool(tools.create_todo, "Create a todo", tool_server.ADDITIVE))
    server.add_tool(tool_server.declare_tool(tools.list_todos, "List todos", tool_server.READ_ONLY))
    server.add_tool(tool_server.declare_tool(tools.update_todo, "Update a todo", tool_server.DESTRUCTIVE))
    server.add_tool(tool_server.declare_tool(tools.search_todos, "Search todos", tool_server.READ_ONLY))
    server.add_tool(tool_server.declare_tool(tools.delete_todo, "Delete a todo", tool_server.DESTRUCTIVE))
    return server
