"""Name what the todo server speaks of: a todo, what selects todos, a page of them."""

from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

Priority = Literal["low", "medium", "high"]
Status = Literal["active", "completed"]


class Todo(TypedDict):
    """One todo as the tools answer it; dates and times are ISO 8601 texts, times in UTC (T-13)."""

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


class Fields(TypedDict, total=False):
    """The fields of a todo that a caller may write; a field that is absent stays as it is."""

    title: str
    description: str | None
    status: Status
    priority: Priority
    due_date: str | None
    tags: list[str]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which todos a listing is about; None selects all. `due_before` is in the form of `Todo.due_date`."""

    status: Status | None = None
    priority: Priority | None = None
    tag: str | None = None
    due_before: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Todos in the order of their ids; `next_after` is the id to go on after, None at the end."""

    todos: list[Todo]
    total: int
    next_after: int | None


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of a write; `replayed` tells that it was kept from an earlier call with the same key (T-03)."""

    todo: Todo
    replayed: bool
