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
        _tool("filesystem_delete_file", "Delete a file.", {"path": TEXT}),
    ],
    "shop": [
        _tool("get_order", "Get an order by its id.", {"order_id": TEXT}),
        _tool("cancel_order", "Cancel an order.", {"order_id": TEXT}),
    ],
    "issues": [
        _tool("list_issues", "List the issues.", {}),
        _tool("close_issue", "Close an issue.", {"issue_number": WHOLE}),
        _tool("delete_branch", "Delete a branch.", {"branch": TEXT}),
    ],
    "mail": [_tool("send_email", "Send an email to a recipient.", {"to": TEXT, "body": TEXT}, {"subject": TEXT})],
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
        ("files", 'write "hello" to /srv/b.txt', "filesystem_write_file", {"content": "hello", "path": "/srv/b.txt"}),
        ("shop", "where is my order B-2?", "get_order", {"order_id": "B-2"}),
        ("issues", "mark issue 5 as done", "close_issue", {"issue_number": 5}),
        ("issues", "delete the branch main", "delete_branch", {"branch": "main"}),
        (
            "mail",
            "email bob@example.com saying hello tomorrow at 9",
            "send_email",
            {"to": "bob@example.com", "body": "hello tomorrow at 9"},
        ),
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


@pytest.mark.requirement("U-04")
@pytest.mark.parametrize(
    ("server", "text", "question"),
    [
        ("files", "don't delete /srv/a.txt", "with “don't”"),
        ("files", "delete /srv/a.txt and /srv/b.txt", "with “b.txt”"),
        ("files", 'append "hello" to /srv/b.txt', "with “append”"),
        ("files", 'write "hello" to /srv/b.txt in bold', "with “bold”"),
        ("files", 'add "goodbye" to /srv/b.txt', "with “add”"),
        ("files", 'remove "hello" from /srv/a.txt', "with “hello”"),
        ("files", "delete everything but /srv/a.txt", "with “but”"),
        ("files", "delete no files in /srv", "with “no”"),
        ("files", "unless it is empty, delete /srv/a.txt", "with “unless it is empty”"),
        ("shop", "cancel order B-2 tomorrow", "with “tomorrow”"),
        ("shop", "cancel all orders except order B-2", "with “except”"),
        ("issues", "reopen issue 5", "with “reopen”"),
        ("issues", "open issue 5", "with “open”"),
        ("issues", "undo closing issue 5", "with “undo”"),
        ("issues", "mark issue 5 as open", "with “mark”"),
        ("issues", "edit issue 5", "with “edit”"),
        ("issues", "delete the comment on issue 5", "with “delete”"),
        ("issues", "delete all branches but main", "with “but”"),
        ("mail", "send an email to bob@example.com: the meeting is off", "I need the body"),
    ],
)
def test_what_a_tool_cannot_do_is_asked_about(server: str, text: str, question: str) -> None:
    reply = offline_model().bind_tools(SERVERS[server]).invoke(text)

    assert (reply.tool_calls, question in reply.text) == ([], True), reply.text
