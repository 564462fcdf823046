"""Tools as other MCP servers name and describe them: notes, calendars, files, shops."""

from typing import Any

import pytest

from tests.nodes.offline_model.judging import offline_model

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
DAY = {"type": "string", "format": "date"}
MOMENT = {"type": "string", "format": "date-time"}
TEXTS = {"type": "array", "items": TEXT}


def _tool(
    name: str, description: str, required: dict[str, Any], optional: dict[str, Any] | None = None
) -> dict[str, Any]:
    schema = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return {"name": name, "description": description, "parameters": schema}


SERVERS = {
    "notes": [
        _tool("notes_create_note", "Create a note.", {"title": TEXT}, {"content": TEXT, "labels": TEXTS}),
        _tool("notes_list_notes", "List all notes.", {}, {"label": TEXT, "limit": WHOLE, "page": WHOLE}),
        _tool("notes_search_notes", "Full text search over notes.", {"query": TEXT}),
        _tool("notes_delete_note", "Delete a note.", {"note_id": TEXT}),
        _tool(
            "notes_update_note", "Update a note.", {"note_id": TEXT}, {"title": TEXT, "archived": {"type": "boolean"}}
        ),
    ],
    "calendar": [
        _tool("create_event", "Create an event.", {"summary": TEXT, "start_date": MOMENT}, {"location": TEXT}),
        _tool("list_events", "List events in a time range.", {}, {"from_date": DAY, "to_date": DAY}),
        _tool("delete_event", "Delete an event.", {"event_id": WHOLE}),
    ],
    "files": [
        _tool("filesystem_read_text_file", "Read a text file.", {"path": TEXT}, {"head": WHOLE}),
        _tool("filesystem_write_file", "Create a new file or overwrite one.", {"path": TEXT, "content": TEXT}),
        _tool("filesystem_list_directory", "List a directory.", {"path": TEXT}),
        _tool("filesystem_create_directory", "Create a directory.", {"path": TEXT}),
        _tool("filesystem_move_file", "Move or rename files.", {"source": TEXT, "destination": TEXT}),
        _tool("filesystem_search_files", "Search for files.", {"path": TEXT, "pattern": TEXT}),
    ],
    "core": [
        _tool("execute_job", "Start a job at an endpoint.", {"endpoint": TEXT}, {"params": {"type": "object"}}),
        _tool("check_job_status", "Check the status of a job.", {"endpoint": TEXT, "job_id": TEXT}),
    ],
    "shop": [
        _tool("get_order", "Get an order by its id.", {"order_id": TEXT}),
        _tool("cancel_order", "Cancel an order.", {"order_id": TEXT}),
        _tool(
            "convert_currency",
            "Convert an amount between currencies.",
            {"amount": {"type": "number"}, "from_currency": TEXT, "to_currency": TEXT},
        ),
    ],
}


@pytest.mark.requirement("O-01")
@pytest.mark.requirement("O-02")
@pytest.mark.parametrize(
    ("server", "text", "name", "arguments"),
    [
        ("notes", "Create a note about the garden party", "notes_create_note", {"title": "Garden party"}),
        (
            "notes",
            'add a note titled "Recipe" with content "eggs, flour"',
            "notes_create_note",
            {"title": "Recipe", "content": "eggs, flour"},
        ),
        ("notes", "show my notes", "notes_list_notes", {}),
        ("notes", "list notes labelled home", "notes_list_notes", {"label": "home"}),
        ("notes", "find notes about pasta", "notes_search_notes", {"query": "pasta"}),
        ("notes", "delete note n-42", "notes_delete_note", {"note_id": "n-42"}),
        (
            "calendar",
            "Create an event Team lunch tomorrow",
            "create_event",
            {"summary": "Team lunch", "start_date": "2026-03-05T00:00:00Z"},
        ),
        (
            "calendar",
            "what events are there next week?",
            "list_events",
            {"from_date": "2026-03-09", "to_date": "2026-03-15"},
        ),
        (
            "calendar",
            "list events from 2026-03-01 to 2026-03-10",
            "list_events",
            {"from_date": "2026-03-01", "to_date": "2026-03-10"},
        ),
        ("calendar", "delete event 5", "delete_event", {"event_id": 5}),
        ("files", "read /srv/a.txt", "filesystem_read_text_file", {"path": "/srv/a.txt"}),
        (
            "files",
            'write "hello" to the file /srv/b.txt',
            "filesystem_write_file",
            {"content": "hello", "path": "/srv/b.txt"},
        ),
        ("files", "list the directory /srv", "filesystem_list_directory", {"path": "/srv"}),
        ("files", "create the directory /srv/new", "filesystem_create_directory", {"path": "/srv/new"}),
        (
            "files",
            "move /srv/a.txt to /srv/b.txt",
            "filesystem_move_file",
            {"source": "/srv/a.txt", "destination": "/srv/b.txt"},
        ),
        ("files", "find *.py files in /srv", "filesystem_search_files", {"path": "/srv", "pattern": "*.py"}),
        ("core", "run the job at https://x.example/jobs", "execute_job", {"endpoint": "https://x.example/jobs"}),
        (
            "core",
            "check the status of job abc-1 at https://x.example/jobs",
            "check_job_status",
            {"job_id": "abc-1", "endpoint": "https://x.example/jobs"},
        ),
        ("shop", "where is my order B-2?", "get_order", {"order_id": "B-2"}),
        ("shop", "cancel order A-17", "cancel_order", {"order_id": "A-17"}),
    ],
)
def test_a_request_finds_its_tool_and_arguments(server: str, text: str, name: str, arguments: dict[str, Any]) -> None:
    for tools in (SERVERS[server], SERVERS[server][::-1]):
        reply = offline_model().bind_tools(tools).invoke(text)

        assert [(call["name"], call["args"]) for call in reply.tool_calls] == [(name, arguments)]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("text", ["hello", "What is the meaning of life?", "I am tired", "Tell me a joke"])
def test_no_server_is_called_for_small_talk(server: str, text: str) -> None:
    assert offline_model().bind_tools(SERVERS[server]).invoke(text).tool_calls == []
