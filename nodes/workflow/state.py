"""Define what a workflow takes and leaves, and what its nodes read and write: plain JSON, never a credential (W-02)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NotRequired

from langgraph.channels import EphemeralValue
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator
from typing_extensions import TypedDict

from toolweave.nodes.model_turn import ModelUsage, merge_model_usage, usage_summary

Stage = Literal["tool_retrieval", "llm_selection", "api_execution", "response_formatting"]
Status = Literal["success", "error"]
# What schemas say of the input: forms, documents and models that call the workflow as a tool read it.
INSTRUCTIONS = Field(description="What is to be done, in plain words, with the values that the request needs.")
TOOL_IDS = Field(description="Ids of the registered tools that may be chosen.")
FORMAT = Field(description="Whether the answer is told in words, too.", json_schema_extra={"default": False})
FORMAT_INSTRUCTIONS = Field(
    description="How to tell it, such as language, length and layout.", json_schema_extra={"default": None}
)


class WorkflowMetadata(TypedDict):
    """What a run has used: `usage` sums the tokens of its model calls."""

    usage: dict[str, Any]


class Candidate(TypedDict):
    """A tool that the model may choose, as it is told of it (W-04)."""

    tool_id: str
    name: str
    description: str


class ChosenRequest(TypedDict):
    """The model's choice after it was checked."""

    tool_id: str
    arguments: dict[str, Any]


class Failure(TypedDict):
    """How a stage failed: what the answer may say of it."""

    stage: Stage
    message: str


class WantedFormat(TypedDict):
    """How the answer is to be put into words."""

    instructions: str | None


class WorkflowInput(TypedDict):
    """What a caller gives (W-02); a thread's next run does not inherit what is not given again."""

    user_instructions: Annotated[str, INSTRUCTIONS]
    tool_ids: Annotated[list[str], TOOL_IDS]
    format_response: NotRequired[Annotated[bool, FORMAT, EphemeralValue]]
    response_format_instructions: NotRequired[Annotated[str | None, FORMAT_INSTRUCTIONS, EphemeralValue]]


class WorkflowOutput(TypedDict):
    """What a run leaves (W-02); `output` is the answer's body after its field mappings, `http_spec` what was sent."""

    status: Annotated[Status, Field(description="An answer that could not be told in words is a success, too.")]
    selected_tool: Annotated[str | None, Field(description="Name of the chosen tool.")]
    http_spec: Annotated[
        dict[str, Any] | None,
        Field(description="The request: method, url, headers, query and body, without credentials."),
    ]
    raw_response: Annotated[
        dict[str, Any] | None,
        Field(description="What came back: status_code, headers, body, execution_time_ms and body_encoding."),
    ]
    output: Annotated[Any, Field(description="The body, or what the tool's response mappings find in it.")]
    formatted_response: Annotated[str | None, Field(description="The answer in words.")]
    warning: Annotated[str | None, Field(description="What is odd about an answer that is there.")]
    error: Annotated[str | None, Field(description="What went wrong.")]
    error_stage: Annotated[Stage | None, Field(description="Where it went wrong.")]
    metadata: WorkflowMetadata


class WorkflowState(WorkflowInput, WorkflowOutput):
    """The input, the output, and what the nodes tell each other; without `wanted_format` nothing is formatted."""

    wanted_format: WantedFormat | None
    candidates: list[Candidate]
    selection: ChosenRequest | None
    model_usage: Annotated[list[ModelUsage], merge_model_usage]
    failure: Failure | None


WorkflowUpdate = dict[str, Any]
"""What a node writes; absent keys stay as they are. Until a run has ended its status is None."""
WorkflowNode = Callable[..., Awaitable[WorkflowUpdate]]
"""A node; one that calls the model also takes the config, which carries the stream its tokens go to."""

MAX_TOOL_IDS = 500


class CheckedWorkflowInput(BaseModel):
    """What is to be done, with which tools, and whether the answer is to be told in words; `WorkflowInput`, checked."""

    model_config = ConfigDict(hide_input_in_errors=True)

    user_instructions: Annotated[StrictStr, INSTRUCTIONS] = Field(min_length=1, max_length=100_000)
    tool_ids: Annotated[list[Annotated[StrictStr, Field(min_length=1, max_length=200)]], TOOL_IDS] = Field(
        min_length=1, max_length=MAX_TOOL_IDS, strict=True
    )
    format_response: Annotated[StrictBool, FORMAT] = False
    response_format_instructions: Annotated[StrictStr | None, FORMAT_INSTRUCTIONS] = Field(
        default=None, max_length=20_000
    )

    @field_validator("user_instructions")
    @classmethod
    def _require_text(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value


def new_state() -> WorkflowUpdate:
    """Give the state of a workflow that has done nothing yet, whatever its thread did before."""
    unset: WorkflowUpdate = {
        name: None for name in WorkflowState.__annotations__ if name not in WorkflowInput.__annotations__
    }
    return {**unset, "metadata": WorkflowMetadata(usage=usage_summary([])), "candidates": []}
