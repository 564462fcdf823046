"""List calls that are refused: tool, arguments, the parameter that the message names, and the expected value."""

from typing import Any

LARGE = "x" * 1_000_000

REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("create_todo", {}, "'title'", "required"),
    ("create_todo", {"title": None}, "'title'", "must be a string"),
    ("create_todo", {"title": " \u00a0\t"}, "'title'", "1 or more characters"),
    ("create_todo", {"title": "x" * 201}, "'title'", "200 or fewer characters"),
    ("create_todo", {"title": "a\x00b"}, "'title'", "control characters"),
    ("create_todo", {"title": "a\nb"}, "'title'", "single line"),
    ("create_todo", {"title": "\ud800"}, "'title'", "Unicode"),
    ("create_todo", {"title": "x", "description": "a\x00b"}, "'description'", "control characters"),
    ("create_todo", {"title": "x", "description": LARGE}, "'description'", "4000 or fewer"),
    ("create_todo", {"title": "x", "priority": "urgent"}, "'priority'", "'low', 'medium' or 'high'"),
    ("create_todo", {"title": "x", "priority": None}, "'priority'", "'low', 'medium' or 'high'"),
    ("create_todo", {"title": "x", "due_date": "2026-02-30"}, "'due_date'", "ISO 8601"),
    ("create_todo", {"title": "x", "due_date": "0001-01-01T00:00:00+14:00"}, "'due_date'", "ISO 8601"),
    ("create_todo", {"title": "x", "due_date": 20261224}, "'due_date'", "a string"),
    ("create_todo", {"title": "x", "tags": "a,b"}, "'tags'", "must be a list"),
    ("create_todo", {"title": "x", "tags": [""]}, "'tags[0]'", "1 or more characters"),
    ("create_todo", {"title": "x", "tags": [str(n) for n in range(21)]}, "'tags'", "20 or fewer"),
    ("create_todo", {"title": "x", "colour": "red"}, "'colour'", "the tool takes title"),
    ("create_todo", {"title": "x", LARGE: 1}, "no parameter", "the tool takes title"),
    ("list_todos", {"status": "open"}, "'status'", "'active', 'completed' or 'all'"),
    ("list_todos", {"limit": 0}, "'limit'", "at least 1"),
    ("list_todos", {"limit": 101}, "'limit'", "at most 100"),
    ("list_todos", {"limit": 1.5}, "'limit'", "a whole number"),
    ("list_todos", {"limit": True}, "'limit'", "a whole number"),
    ("list_todos", {"cursor": LARGE}, "'cursor'", "16 or fewer characters"),
    ("update_todo", {"id": True, "title": "x"}, "'id'", "a whole number"),
    ("update_todo", {"id": 2**63, "title": "x"}, "'id'", "at most 9007199254740991"),
    ("update_todo", {"id": float("inf"), "title": "x"}, "'id'", "a whole number"),
    ("update_todo", {"id": "1; DROP TABLE todos", "title": "x"}, "'id'", "a whole number"),
    ("update_todo", {"id": 1, "status": "all"}, "'status'", "'active' or 'completed'"),
    ("search_todos", {"query": "  "}, "'query'", "1 or more characters"),
    ("search_todos", {"query": LARGE}, "'query'", "200 or fewer characters"),
    ("delete_todo", {"id": False}, "'id'", "a whole number"),
]
