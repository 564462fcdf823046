"""Keep todos in memory behind five tools with the names, parameters and answers of the todo server.

`test_todo_backend.py` compares the schemas with the server's own, so the two cannot drift apart.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

TOOLS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("todo_tools.json").read_bytes())

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
        todo: dict[str, Any] = {"id": self.next_id, "title": title, "description": None, "status": "active"}
        todo |= {"priority": "medium", "due_date": None, "tags": [], **fields}
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
        return [self._tool(name, **parts) for name, parts in TOOLS.items()]

    def _tool(self, name: str, description: str, properties: dict[str, Any], required: list[str]) -> BaseTool:
        def call(**arguments: Any) -> str:
            if self.down:
                raise ToolException("The todo server is not available at the moment. Please try again later.")
            answer: dict[str, Any] = getattr(self, name)(**arguments)
            if answer["status"] == "error":
                raise ToolException(json.dumps(answer))
            return json.dumps(answer)

        schema = {"additionalProperties": False, "properties": properties, "required": required, "type": "object"}
        return StructuredTool(name=name, description=description, args_schema=schema, func=call, handle_tool_error=str)


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
