from typing import Any

import pytest

from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.registry import ListedTool, build_tool_registry, offered_tools


def specs(*names: str) -> list[ListedTool]:
    return [ListedTool(name, None, {}, {}, None) for name in names]


def config(name: str, **options: Any) -> McpServerConfig:
    return McpServerConfig(name=name, transport="stdio", **options)


@pytest.mark.requirement("D-2")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["s_read_file", "s_remove", "s_write_file"]),
        ({"prefix": ""}, ["read_file", "remove", "write_file"]),
        ({"prefix": "x."}, ["x.read_file", "x.remove", "x.write_file"]),
        ({"include": ("*_file",)}, ["s_read_file", "s_write_file"]),
        ({"exclude": ("re*",)}, ["s_write_file"]),
        ({"include": ("*_file",), "exclude": ("write_*",)}, ["s_read_file"]),
        ({"include": ("s_*",)}, []),
        ({"include": ("READ_FILE",)}, []),
    ],
)
def test_globs_match_the_name_without_the_prefix(options: dict[str, Any], expected: list[str]) -> None:
    assert list(offered_tools(config("s", **options), specs("write_file", "read_file", "remove"))) == expected


@pytest.mark.requirement("D-2")
def test_the_later_server_is_refused_whole_and_named() -> None:
    registry = build_tool_registry(
        [(config("a", prefix=""), specs("x")), (config("b"), specs("x")), (config("c", prefix=""), specs("x", "y"))]
    )
    assert {name: list(offer) for name, offer in registry.tools_by_server.items()} == {"a": ["x"], "b": ["b_x"]}
    assert list(registry.refusals) == ["c"]
    assert "its tools x have names that the server a already uses" in registry.refusals["c"]


def test_a_refused_server_takes_no_names_from_others() -> None:
    registry = build_tool_registry(
        [
            (config("a", prefix=""), specs("x")),
            (config("b", prefix=""), specs("x", "y")),
            (config("c", prefix=""), specs("y")),
        ]
    )
    assert {name: list(offer) for name, offer in registry.tools_by_server.items()} == {"a": ["x"], "c": ["y"]}


@pytest.mark.requirement("D-2")
def test_a_prefix_can_collide_with_another_servers_own_name() -> None:
    registry = build_tool_registry([(config("a"), specs("b_x")), (config("a_b"), specs("x"))])
    assert list(registry.refusals) == ["a_b"]
