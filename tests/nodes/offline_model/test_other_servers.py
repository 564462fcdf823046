"""Tools as other MCP servers name and describe them: notes, calendars, files, shops."""

from typing import Any

import pytest

from tests.nodes.offline_model.judging import offline_model

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
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
    ],
    "files": [
        _tool("filesystem_read_text_file", "Read a text file.", {"path": TEXT}, {"head": WHOLE}),
        _tool("filesystem_write_file", "Create a new file or overwrite one.", {"path": TEXT, "content": TEXT}),
        _tool("filesystem_create_directory", "Create a directory.", {"path": TEXT}),
        _tool("filesystem_move_file", "Move or rename files.", {"source": TEXT, "destination": TEXT}),
        _tool("filesystem_search_files", "Search for files.", {"path": TEXT, "pattern": TEXT}),
    ],
    "shop": [
        _tool("get_order", "Get an order by its id.", {"order_id": TEXT}),
        _tool("cancel_order", "Cancel an order.", {"order_id": TEXT}),
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
        ("notes", "list notes labelled home", "notes_list_notes", {"label": "home"}),
        ("notes", "find notes about pasta", "notes_search_notes", {"query": "pasta"}),
        ("notes", "delete note n-42", "notes_delete_note", {"note_id": "n-42"}),
        ("files", "read /srv/a.txt", "filesystem_read_text_file", {"path": "/srv/a.txt"}),
        (
            "files",
            'write "hello" to the file /srv/b.txt',
            "filesystem_write_file",
            {"content": "hello", "path": "/srv/b.txt"},
        ),
        ("files", "create the directory /srv/new", "filesystem_create_directory", {"path": "/srv/new"}),
        (
            "files",
            "move /srv/a.txt to /srv/b.txt",
            "filesystem_move_file",
            {"source": "/srv/a.txt", "destination": "/srv/b.txt"},
        ),
        ("files", "find *.py files in /srv", "filesystem_search_files", {"path": "/srv", "pattern": "*.py"}),
        ("shop", "where is my order B-2?", "get_order", {"order_id": "B-2"}),
    ],
)
def test_a_request_finds_its_tool_and_arguments(server: str, text: str, name: str, arguments: dict[str, Any]) -> None:
    for tools in (SERVERS[server], SERVERS[server][::-1]):
        reply = offline_model().bind_tools(tools).invoke(text)

        assert [(call["name"], call["args"]) for call in reply.tool_calls] == [(name, arguments)]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("text", ["hello", "What is the meaning of life?"])
def test_no_server_is_called_for_small_talk(server: str, text: str) -> None:
    assert offline_model().bind_tools(SERVERS[server]).invoke(text).tool_calls == []
