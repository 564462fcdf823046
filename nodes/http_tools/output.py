"""Make a tool's output of an API's answer: its field mappings, then a look at its output_schema (W-01, W-06)."""

from dataclasses import dataclass, field
from typing import Any

from toolweave.nodes.http_tools.path_search import PathSearch
from toolweave.nodes.http_tools.specs import HTTPResponseSpec
from toolweave.schema import well_formed_schema
from toolweave.tool_config import ToolConfig

MOST_OUTPUT = 10_000_000
"""How much the mapped fields may hold together, in characters; parts of an answer may be mapped many times over."""
_A_VALUE = 10
_WITHOUT_CONTENT = (204, 205, 304)


@dataclass(frozen=True)
class Output:
    """What a call has given: the body, or an object with the mapped fields, and what is wrong with it."""

    value: Any
    warnings: list[str] = field(default_factory=list)


def mapped_output(tool: ToolConfig, response: HTTPResponseSpec) -> Output:
    """Return the answer's body, or what the tool's response mappings find in it, by output field.

    A path that can match only once, of names and indexes, gives the value there or null; any other path gives a list,
    an empty one at least. What does not fit the output_schema is a warning, never a failure.
    """
    paths = tool.field_mappings.response
    value, warnings = _mapped(paths, response.body) if paths else (response.body, [])
    without_content = response.body is None and (tool.api.method == "HEAD" or response.status_code in _WITHOUT_CONTENT)
    if tool.output_schema and not without_content:
        problems = well_formed_schema(tool.output_schema).problems(value)
        warnings += [f"The answer is not what the output_schema says: {_of_output(problem)}." for problem in problems]
    return Output(value, warnings)


def _mapped(paths: dict[str, str], body: Any) -> tuple[dict[str, Any], list[str]]:
    search = PathSearch(body)
    found = {name: search.find(path) for name, path in paths.items()}
    warnings = []
    if not search.complete:
        warnings.append("The answer is too large to be searched through: the output lacks some of it.")
    if all(value is None or value == [] for value in found.values()):
        warnings.append("None of the tool's field mappings finds anything in the answer.")
    if cut := _too_much(found):
        found |= dict.fromkeys(cut)
        warnings.append(f"The output lacks {', '.join(cut)}: the mapped fields hold too much.")
    return found, warnings


def _too_much(found: dict[str, Any]) -> list[str]:
    room, cut = MOST_OUTPUT, []
    for name, value in found.items():
        left = _room_left(value, room)
        if left < 0:
            cut.append(name)
        # Halved by what does not fit, so that counting many large fields takes no longer than counting two.
        room = left if left >= 0 else room // 2
    return cut


def _room_left(value: Any, room: int) -> int:
    left = [value]
    while left and room >= 0:
        part = left.pop()
        room -= _A_VALUE + (len(part) if isinstance(part, str) else 0)
        if isinstance(part, dict):
            room -= sum(map(len, part))
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
    return room


def _of_output(problem: str) -> str:
    # A schema speaks of arguments where it has no name for the place.
    return problem.replace("the arguments", "the output", 1) if problem.startswith("the arguments ") else problem
