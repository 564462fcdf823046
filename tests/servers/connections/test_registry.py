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
def test_a_server_whose_names_collide_with_an_earlier_one_is_refused_whole_and_takes_no_names_from_others() -> None:
    registry = build_tool_registry(
        [
            (config("a", prefix=""), specs("x")),
            (config("b"), specs("x", "c_x")),
            (config("c", prefix=""), specs("x", "y")),
            (config("d", prefix=""), specs("y")),
            (config("b_c"), specs("x")),
        ]
    )
    offers = {name: list(offer) for name, offer in registry.tools_by_server.items()}
    assert offers == {"a": ["x"], "b": ["b_c_x", "b_x"], "d": ["y"]}
    assert list(registry.refusals) == ["c", "b_c"]
    assert "its tools x have names that the server a already uses" in registry.refusals["c"]
