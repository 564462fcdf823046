"""Which tools of a server need a person's approval, and which calls may be issued again (S-07)."""

from typing import Any

import pytest
from mcp.types import CallToolResult

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.registry import ListedTool
from toolweave.servers.connections.tool import McpTool, build_tools


def built(name: str = "delete_file", annotations: dict[str, Any] | None = None, **config: Any) -> McpTool:
    spec = ListedTool(name=name, description=None, input_schema={}, annotations=annotations or {}, meta=None)
    [tool] = build_tools(McpServerConfig(name="files", transport="stdio", **config), {f"files_{name}": spec}, never)
    return tool


async def never(server: str, tool: str, arguments: dict[str, Any], context: CallContext) -> CallToolResult:
    raise AssertionError("called")


def needs_approval(tool: McpTool) -> bool:
    return bool((tool.metadata or {})["requires_approval"])


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        ((), False),
        (("delete_*",), True),
        (("read_*", "*_file"), True),
        (("*",), True),
        (("files_delete_file",), False),
        (("DELETE_*",), False),
        (("delete",), False),
    ],
)
def test_globs_match_the_name_without_its_prefix(globs: tuple[str, ...], expected: bool) -> None:
    assert needs_approval(built(approve=globs)) is expected


@pytest.mark.parametrize(
    ("configured", "annotations", "expected"),
    [
        (True, {"destructiveHint": True}, True),
        (True, {"destructiveHint": False}, False),
        (True, {}, False),
        (True, {"destructiveHint": "yes"}, False),
        (False, {"destructiveHint": True}, False),
    ],
)
def test_an_explicit_destructive_hint_counts_where_the_entry_says_so(
    configured: bool, annotations: dict[str, Any], expected: bool
) -> None:
    assert needs_approval(built(annotations=annotations, approve_destructive=configured)) is expected


def test_a_server_cannot_say_of_itself_that_no_approval_is_needed() -> None:
    assert needs_approval(built(annotations={"requires_approval": False}, approve=("*",)))
    assert not needs_approval(built(annotations={"requires_approval": True}))


@pytest.mark.parametrize(
    ("annotations", "elicit", "expected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"readOnlyHint": True}, False, True),
        ({"idempotentHint": True}, False, True),
        ({"readOnlyHint": "true", "idempotentHint": 1}, False, False),
    ],
)
def test_a_call_may_be_issued_again_when_that_is_harmless_or_allowed(
    annotations: dict[str, Any], elicit: bool, expected: bool
) -> None:
    assert built(annotations=annotations, elicit=elicit).may_be_reissued is expected
