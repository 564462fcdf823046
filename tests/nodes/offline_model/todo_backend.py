"""Keep todos in memory behind five tools with the names, parameters and answers of the todo server.

`test_todo_backend.py` compares the schemas with the server's own, so the two cannot drift apart.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

PRIORITY = {"enum": ["low", "medium", "high"], "type": "string"}
TITLE = {"maxLength": 200, "minLength": 1, "type": "string"}
DESCRIPTION = {"maxLength": 4000, "type": "string"}
DATE = {"maxLength": 40, "type": "string"}
TAG = {"maxLength": 50, "minLength": 1, "type": "string"}
TAGS = {"items": TAG, "maxItems": 20, "type": "array"}
ID = {"maximum": 9007199254740991, "minimum": 1, "type": "integer"}

SCHEMAS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "create_todo": (
        (
            "Add a new todo (task) to the list and return it with its id.\n\n"
            "Use it whenever something is to be remembered, planned or noted."
        ),
        {
            "title": TITLE,
            "description": DESCRIPTION,
            "priority": {**PRIORITY, "default": "medium"},
            "due_date": DATE,
            "tags": TAGS,
        },
        ["title"],
    ),
    "list_todos": (
        (
            "Show the todos (tasks), all or those with a status, priority, tag or due date, oldest first.\n\n"
            "Use it for an overview; find a certain one with search_todos."
        ),
        {
            "status": {"default": "all", "enum": ["active", "completed", "all"], "type": "string"},
            "priority": PRIORITY,
            "tag": TAG,
            "due_before": DATE,
            "limit": {"default": 50, "maximum": 100, "minimum": 1, "type": "integer"},
            "cursor": {"type": "string", "maxLength": 16},
        },
        [],
    ),
    "update_todo": (
        (
            "Change a todo (task), or mark it completed; omitted fields stay as they are.\n\n"
            "An empty description or due_date, or an empty list of tags, removes the previous value."
        ),
        {
            "id": ID,
            "title": TITLE,
            "description": DESCRIPTION,
            "priority": PRIORITY,
            "due_date": DATE,
            "tags": TAGS,
            "status": {"enum": ["active", "completed"], "type": "string"},
        },
        ["id"],
    ),
    "search_todos": (
        (
            "Find todos (tasks) by words in their title, description or tags, best match first.\n\n"
            "Use it when you know a part of its wording, also to get the id that update_todo "
            "and delete_todo need."
        ),
        {
            "query": {"maxLength": 200, "minLength": 1, "type": "string"},
            "limit": {"default": 20, "maximum": 100, "minimum": 1, "type": "integer"},
        },
        ["query"],
    ),
    "delete_todo": (
        (
            "Remove a todo (task) for good and return it.\n\n"
            "Use it for a todo that is not wanted any more; it cannot be restored."
        ),
        {"id": ID},
        ["id"],
    ),
}

SEED: tuple[dict[str, Any], ...] = (
    {"title": "Buy milk", "due_date": "2026-03-05", "tags": ["groceries"]},
    {"title": "Dentist appointment", "priority": "high", "due_date": "2026-03-10"},
    {"title": "Write quarterly report", "priority": "high", "due_date": "2026-03-06", "tags": ["work"]},
    {"title": "Call mom", "priority": "low"},
    {"title": "Pay electricity bill", "due_date": "2026-03-03", "tags": ["home"]},
    {"title": "Water the plants", "status": "completed", "priority": "low", "tags": ["home"]},
    {"title": "Renew passport"},
    {"title": "Team meeting notes", "status": "completed", "tags": ["work"]},
    {"title": "Fix kitchen sink", "priority": "low", "tags": ["home"]},
    {"title": "Buy birthday present for Anna", "due_date": "2026-03-14"},
    {"title": "Review pull request 42", "priority": "high", "tags": ["work"]},
    {"title": "Book flight to Lisbon", "tags": ["travel"]},
    {"title": "Buy bread", "tags": ["groceries"]},
)


@dataclass
class TodoBackend:
    """Todos by id; `down` makes every call fail as an unreachable server does."""

    todos: dict[int, dict[str, Any]] = field(default_factory=dict)
    next_id: int = 1
    down: bool = False

    def create_todo(self, title: str, **fields: Any) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "description": None,
            "status": "active",
            "priority": "medium",
            "due_date": None,
            "tags": [],
        }
        todo = {"id": self.next_id, "title": title, **empty, **fields}
        self.todos[self.next_id] = todo
        self.next_id += 1
        return _success(todo)

    def list_todos(self, status: str = "all", limit: int = 50, **filters: Any) -> dict[str, Any]:
        chosen = [
            todo
            for todo in self.todos.values()
            if status in ("all", todo["status"])
            and filters.get("priority") in (None, todo["priority"])
            and ("tag" not in filters or filters["tag"] in todo["tags"])
            and ("due_before" not in filters or (todo["due_date"] or "9") < filters["due_before"])
        ]
        return _success(chosen[:limit], count=len(chosen[:limit]), total=len(chosen), next_cursor=None)

    def update_todo(self, id: int, **changes: Any) -> dict[str, Any]:  # noqa: A002  the tool's parameter is called so
        if id not in self.todos:
            return _no_such_todo(id)
        self.todos[id] |= changes
        return _success(self.todos[id])

    def search_todos(self, query: str, limit: int = 20) -> dict[str, Any]:
        found = [todo for todo in self.todos.values() if _has_words(todo, query.lower().split())]
        return _success(found[:limit], count=len(found[:limit]))

    def delete_todo(self, id: int) -> dict[str, Any]:  # noqa: A002  as in update_todo
        return _success(self.todos.pop(id)) if id in self.todos else _no_such_todo(id)

    def tools(self) -> list[BaseTool]:
        return [self._tool(name, *parts) for name, parts in SCHEMAS.items()]

    def _tool(self, name: str, description: str, properties: dict[str, Any], required: list[str]) -> BaseTool:
        def call(**arguments: Any) -> str:
            if self.down:
                raise ToolException("The todo server is not available at the moment. Please try again later.")
            answer: dict[str, Any] = getattr(self, name)(**arguments)
            if answer["status"] == "error":
                raise ToolException(json.dumps(answer))
            return json.dumps(answer)

        schema = {"additionalProperties": False, "properties": properties, "required": required, "type": "object"}
        return StructuredTool(
            name=name,
            description=description,
            args_schema=schema,
            func=call,
            handle_tool_error=str,
        )


def seeded_backend() -> TodoBackend:
    """Give a backend with thirteen todos, among them three to buy something."""
    backend = TodoBackend()
    for todo in SEED:
        backend.create_todo(**todo)
    return backend


def _has_words(todo: dict[str, Any], wanted: list[str]) -> bool:
    present = " ".join([todo["title"], todo["description"] or "", *todo["tags"]]).lower().split()
    return all(any(word.startswith(one) for word in present) for one in wanted)


def _success(data: object, **metadata: object) -> dict[str, Any]:
    return {"status": "success", "data": data, "metadata": {"duration_ms": 1.0, **metadata}}


def _no_such_todo(todo_id: int) -> dict[str, Any]:
    problem = {
        "type": "not_found",
        "code": "not_found",
        "message": f"There is no todo with the id {todo_id}.",
        "suggestion": "Find the right id with list_todos or search_todos.",
    }
    return {"status": "error", "error": problem}
