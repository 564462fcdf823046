"""Say what a workflow can be asked, and what is wrong with an input that is something else (W-02)."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError, field_validator

from toolweave.config.problems import sentences
from toolweave.errors import StageFailed
from toolweave.nodes.workflow.state import FORMAT, FORMAT_INSTRUCTIONS, INSTRUCTIONS, TOOL_IDS

MOST_TOOLS = 500
MOST_PROBLEMS = 10


class CheckedInput(BaseModel):
    """What is to be done, with which tools, and whether the answer is to be told in words; `WorkflowInput`, checked."""

    model_config = ConfigDict(hide_input_in_errors=True)

    user_instructions: Annotated[StrictStr, INSTRUCTIONS] = Field(min_length=1, max_length=100_000)
    tool_ids: Annotated[list[Annotated[StrictStr, Field(min_length=1, max_length=200)]], TOOL_IDS] = Field(
        min_length=1, max_length=MOST_TOOLS, strict=True
    )
    format_response: Annotated[StrictBool, FORMAT] = False
    response_format_instructions: Annotated[StrictStr | None, FORMAT_INSTRUCTIONS] = Field(
        default=None, max_length=20_000
    )

    @field_validator("user_instructions")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """Read the input of a graph, which is checked by nobody else.

        Raises:
            StageFailed: it is not what a workflow takes; names the fields and what was expected of each.
        """
        given = {name: state[name] for name in cls.model_fields if state.get(name) is not None}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            found = [f"{'.'.join(map(str, place))} {problem}" for place, problem in sentences(error)[:MOST_PROBLEMS]]
            raise StageFailed(f"The workflow cannot begin: {'; '.join(found)}.") from None
