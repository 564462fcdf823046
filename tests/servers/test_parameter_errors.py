"""A wrong parameter is named down to the entry that is wrong, with what it must be, whatever its schema looks like."""

from typing import Annotated, Any, Literal

import pydantic
import pytest
from fastmcp.exceptions import ValidationError
from fastmcp.tools import Tool, ToolResult
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from toolweave.servers.envelope import success
from toolweave.servers.parameter_errors import explain
from toolweave.servers.tool_server import READS, declared_tool


def even(number: int) -> int:
    if number % 2:
        raise ValueError("an even number")
    return number


class Condition(BaseModel):
    model_config = ConfigDict(extra="forbid")

    column: Annotated[str, Field(min_length=1, max_length=9)]
    op: Literal["eq", "lt"] = "eq"
    value: str | int | float | bool | None = None


class AnyOf(BaseModel):
    model_config = ConfigDict(extra="forbid")

    any: Annotated[list["Condition | AnyOf"], Field(max_length=2)]


class Options(BaseModel):
    sizes: dict[str, Annotated[int, Field(ge=1)]] = {}
    pairs: list[Annotated[int, AfterValidator(even)]] = []


def search(
    filters: list[Condition | AnyOf] | None = None,
    options: Options | None = None,
    mode: Literal["fast"] = "fast",
    trees: list[list[list[int]]] | None = None,
    name: Annotated[str, Field(pattern="^[a-z]+$", max_length=9)] = "a",
    ratio: Annotated[float, Field(ge=0, le=2)] = 0,
) -> ToolResult:
    """Search."""
    return success([filters, options, mode, trees, name, ratio])


TOOL = declared_tool(search, "Search", READS)


async def refusal(tool: Tool, arguments: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises((ValidationError, pydantic.ValidationError)) as refused:
        await tool.run(arguments)
    error = refused.value if isinstance(refused.value, pydantic.ValidationError) else refused.value.__cause__
    assert isinstance(error, pydantic.ValidationError)
    code, message = explain(error, tool.parameters)
    return code.code, message


@pytest.mark.requirement("C-07")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            {"filters": [{"column": "a"}, {"column": "a", "op": "like"}]},
            "invalid_parameter",
            "Parameter 'filters[1].op' must be one of eq, lt.",
        ),
        (
            {"filters": [{"op": "eq"}]},
            "missing_parameter",
            "Parameter 'filters[0].column' is required: text of 1 to 9 characters.",
        ),
        (
            {"filters": [{"column": "a", "colour": 1}]},
            "unknown_parameter",
            "There is no parameter 'filters[0].colour'; that object takes column, op, value.",
        ),
        (
            {"filters": [{"any": [{"any": [{"column": ""}]}]}]},
            "invalid_parameter",
            "Parameter 'filters[0].any[0].any[0].column' must be text of 1 to 9 characters.",
        ),
        (
            {"filters": [{"column": "a", "value": [1]}]},
            "invalid_parameter",
            "Parameter 'filters[0].value' must be text or a number or true or false.",
        ),
        (
            {"filters": "a = 1"},
            "invalid_parameter",
            "Parameter 'filters' must be a list, each an object with column, op, value; or an object with any.",
        ),
        (
            {"filters": ["a = 1"]},
            "invalid_parameter",
            "Parameter 'filters[0]' must be an object with column, op, value.",
        ),
        (
            {"options": {"sizes": {"x\ny": 0}}},
            "invalid_parameter",
            "Parameter 'options.sizes.x?y' must be a whole number of at least 1.",
        ),
        (
            {"options": {"pairs": [2, 3, 5]}},
            "invalid_parameter",
            "Parameter 'options.pairs[1]' must be an even number. Parameter 'options.pairs[2]' must be an even number.",
        ),
        ({"mode": "slow"}, "invalid_parameter", "Parameter 'mode' must be fast."),
        (
            {"name": "A"},
            "invalid_parameter",
            "Parameter 'name' must be text of at most 9 characters that matches ^[a-z]+$.",
        ),
        ({"ratio": 3}, "invalid_parameter", "Parameter 'ratio' must be a number from 0 to 2."),
        ({"trees": 1}, "invalid_parameter", "Parameter 'trees' must be a list, each a list."),
    ],
)
async def test_the_sentence_names_the_entry_and_what_it_must_be(
    arguments: dict[str, Any], code: str, says: str
) -> None:
    assert await refusal(TOOL, arguments) == (code, says)


async def test_every_parameter_is_told_before_a_second_entry_of_one() -> None:
    _, message = await refusal(TOOL, {"filters": [{"column": n} for n in range(50)], "mode": 1, "trees": 1})
    sentences = message.split(". ")
    assert len(sentences) == 5
    assert [sentence.split("'")[1] for sentence in sentences] == [
        "filters[0].column",
        "mode",
        "trees",
        "filters[1].column",
        "filters[2].column",
    ]
