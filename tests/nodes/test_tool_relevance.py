"""The right tool is among the best ranked for a natural request, in any script, and quickly."""

from functools import partial
from pathlib import Path

import pytest
from langchain_core.tools import StructuredTool

from tests.fixtures.counting import calls_in
from tests.nodes.many_tools import many_tools
from toolweave.nodes.tool_selection import ToolIndex

TOOLS = many_tools()
TOP = 20

# One a line: tool | request. They were written as people speak, before the index was tried on them.
REQUESTS = {
    request: tool
    for line in Path(__file__).with_name("tool_requests.txt").read_text(encoding="utf-8").splitlines()
    for tool, request in [line.split(" | ")]
}


def place_of(index: ToolIndex, request: str, name: str) -> int | None:
    ranked = [TOOLS[place].name for place in index.rank([(request, 1.0)])]
    return ranked.index(name) if name in ranked else None


def test_most_natural_requests_have_their_tool_among_the_best_twenty() -> None:
    assert len(TOOLS) >= 200
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    index = ToolIndex(TOOLS)
    places = {request: place_of(index, request, name) for request, name in REQUESTS.items()}
    missed = [request for request, place in places.items() if place is None or place >= TOP]
    rate = 1 - len(missed) / len(REQUESTS)
    assert rate >= 0.9, f"{rate:.0%} of {len(REQUESTS)} among the best {TOP} of {len(TOOLS)}; missed: {missed}"


@pytest.mark.parametrize(
    ("name", "description", "request_text"),
    [
        ("createSpaceship", "Build one", "I am creating spaceships"),
        ("HTTPServerErrors", "Show what failed", "any server error?"),
        ("f1", "Größe Ändern", "größe ändern"),
        ("f3", "天気予報", "明日の天気"),
        ("f4", "half a pair: \ud800 zebra", "zebra"),
    ],
)
def test_words_are_found_in_any_form_and_script(name: str, description: str, request_text: str) -> None:
    tool = StructuredTool.from_function(func=lambda: "", name=name, description=description)
    index = ToolIndex([*TOOLS, tool])
    assert index.rank([(request_text, 1.0)])[0] == len(TOOLS)


def test_a_word_of_the_same_meaning_finds_a_tool() -> None:
    index = ToolIndex(TOOLS)
    assert TOOLS[index.rank([("erase the todo", 1.0)])[0]].name == "todo_delete_todo"


def test_a_request_without_a_matching_tool_has_no_ranking() -> None:
    assert ToolIndex(TOOLS).rank([("zzz qqq", 1.0)]) == []
    assert ToolIndex([]).rank([("anything", 1.0)]) == []


def test_a_question_to_a_thousand_tools_costs_little_beside_making_the_index() -> None:
    tools, index = TOOLS * 4, ToolIndex(TOOLS * 4)
    making = calls_in(lambda: ToolIndex(tools))
    for request in REQUESTS:
        assert calls_in(partial(index.rank, [(request, 1.0)])) < making / 100, request
