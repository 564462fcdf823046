"""The five tools do what they say, and a model can read how to call them."""

from typing import Any

import pytest

from tests.servers.todo.in_memory import TodoClient

pytestmark = pytest.mark.requirement("T-13")


async def test_a_new_todo_has_the_given_values_in_one_form(todos: TodoClient) -> None:
    given = {
        "title": "Zahnärztin 🦷",
        "description": "line one\r\nline two",
        "priority": "high",
        "due_date": "2026-12-24T15:00:00+02:00",
        "tags": ["Health", "health", "Été"],
    }
    todo = await todos.data("create_todo", given)
    assert todo == {
        "id": todo["id"],
        "title": "Zahnärztin 🦷",
        "description": "line one\nline two",
        "status": "active",
        "priority": "high",
        "due_date": "2026-12-24T13:00:00Z",
        "tags": ["health", "été"],
        "created_at": todo["created_at"],
        "updated_at": todo["created_at"],
        "completed_at": None,
    }
    assert await todos.data("search_todos", {"query": "zahnarztin"}) == [todo]


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        ({"status": "all"}, ["a", "b", "c"]),
        ({"status": "active"}, ["a", "c"]),
        ({"status": "completed"}, ["b"]),
        ({"priority": "high"}, ["a", "b"]),
        ({"priority": "high", "status": "active"}, ["a"]),
        ({"tag": "HOME"}, ["a", "c"]),
        ({"tag": "hom"}, []),
        ({"due_before": "2026-12-24"}, ["a"]),
        ({"due_before": "2026-12-24T12:00:01Z"}, ["a", "b"]),
        ({"due_before": "2026-12-24T13:00:01+01:00"}, ["a", "b"]),
    ],
)
async def test_a_listing_shows_the_todos_that_match_every_filter(
    todos: TodoClient, filters: dict[str, Any], titles: list[str]
) -> None:
    await todos.data("create_todo", {"title": "a", "priority": "high", "tags": ["home"], "due_date": "2026-12-23"})
    done = await todos.data("create_todo", {"title": "b", "priority": "high", "due_date": "2026-12-24T12:00:00Z"})
    await todos.data("create_todo", {"title": "c", "tags": ["home", 'a "quoted" tag']})
    await todos.data("update_todo", {"id": done["id"], "status": "completed"})
    answer = await todos.call("list_todos", filters)
    assert [todo["title"] for todo in answer["data"]] == titles
    assert answer["metadata"] | {"duration_ms": 0} == {
        "duration_ms": 0,
        "count": len(titles),
        "total": len(titles),
        "next_cursor": None,
    }


async def test_a_tag_with_quotes_and_backslashes_is_found_exactly(todos: TodoClient) -> None:
    tag = 'a "quoted\\ tag_%'
    await todos.data("create_todo", {"title": "x", "tags": [tag]})
    await todos.data("create_todo", {"title": "y", "tags": ["a", "quoted", "tag"]})
    assert [todo["title"] for todo in await todos.data("list_todos", {"tag": tag})] == ["x"]
    assert [todo["title"] for todo in await todos.data("list_todos", {"tag": "quoted"})] == ["y"]


async def test_pages_show_every_todo_once_while_others_come_and_go(todos: TodoClient) -> None:
    ids = [(await todos.data("create_todo", {"title": f"todo {number}"}))["id"] for number in range(7)]
    seen: list[int] = []
    cursor: str | None = None
    while True:
        answer = await todos.call("list_todos", {"limit": 3, "status": "active", "cursor": cursor})
        seen += [todo["id"] for todo in answer["data"]]
        cursor = answer["metadata"]["next_cursor"]
        if cursor is None:
            break
        await todos.data("delete_todo", {"id": seen[0]}) if len(seen) == 3 else None
        await todos.data("create_todo", {"title": "late", "priority": "low"}) if len(seen) == 3 else None
    assert seen[:7] == ids
    assert len(seen) == len(set(seen)) == 8


async def test_a_forged_cursor_is_refused(todos: TodoClient) -> None:
    for cursor in ("x", "WzEsMl0", "é", "-1", "1" * 17):
        error = await todos.error("list_todos", {"cursor": cursor})
        assert error["code"] == "invalid_parameter", cursor
        assert "'cursor'" in error["message"]


async def test_an_update_changes_the_given_fields_and_no_other(todos: TodoClient) -> None:
    before = await todos.data("create_todo", {"title": "Milk", "description": "oat", "tags": ["shop"]})
    after = await todos.data("update_todo", {"id": before["id"], "priority": "high", "due_date": "20261224"})
    assert after == before | {"priority": "high", "due_date": "2026-12-24", "updated_at": after["updated_at"]}
    assert await todos.data("list_todos", {}) == [after]
    error = await todos.error("update_todo", {"id": before["id"]})
    assert error["code"] == "missing_parameter"
    assert "status" in error["message"]


async def test_empty_optional_parameters_are_absent_and_remove_a_value_in_an_update(todos: TodoClient) -> None:
    empty = {"description": "", "due_date": None, "tags": None, "priority": "low"}
    todo = await todos.data("create_todo", {"title": "x", **empty})
    assert (todo["description"], todo["due_date"], todo["tags"]) == (None, None, [])
    values = {"description": "d", "due_date": "2026-12-24", "tags": ["t"]}
    todo = await todos.data("update_todo", {"id": todo["id"], **values})
    assert {name: todo[name] for name in values} == values
    todo = await todos.data("update_todo", {"id": todo["id"], "description": "", "due_date": "", "tags": []})
    assert (todo["description"], todo["due_date"], todo["tags"]) == (None, None, [])


async def test_completing_twice_keeps_the_first_time_and_reopening_removes_it(todos: TodoClient) -> None:
    todo = await todos.data("create_todo", {"title": "x"})
    done = await todos.data("update_todo", {"id": todo["id"], "status": "completed"})
    assert done["completed_at"]
    again = await todos.data("update_todo", {"id": todo["id"], "status": "completed"})
    assert again["completed_at"] == done["completed_at"]
    reopened = await todos.data("update_todo", {"id": todo["id"], "status": "active"})
    assert reopened["completed_at"] is None


async def test_a_deleted_todo_is_returned_and_gone_and_its_id_is_not_used_again(todos: TodoClient) -> None:
    todo = await todos.data("create_todo", {"title": "x"})
    assert await todos.data("delete_todo", {"id": todo["id"]}) == todo
    assert await todos.data("list_todos", {}) == []
    assert await todos.data("search_todos", {"query": "x"}) == []
    assert (await todos.data("create_todo", {"title": "y"}))["id"] > todo["id"]


@pytest.mark.parametrize(("tool", "more"), [("update_todo", {"title": "x"}), ("delete_todo", {})])
async def test_an_unknown_id_is_named_with_a_way_to_the_right_one(
    todos: TodoClient, tool: str, more: dict[str, Any]
) -> None:
    error = await todos.error(tool, {"id": 404, **more})
    assert (error["type"], error["code"]) == ("not_found", "not_found")
    assert "404" in error["message"]
    assert "search_todos" in error["suggestion"]
