"""Define the input, output and state of a workflow: plain JSON, without credentials (W-02)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NotRequired

from langgraph.channels import EphemeralValue
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator
from typing_extensions import TypedDict

from toolweave.nodes.model_turn import ModelUsage, merge_model_usage, usage_summary

Stage = Literal["tool_retrieval", "llm_selection", "api_execution", "response_formatting"]
Status = Literal["success", "error"]
# Descriptions in the input schema, for forms, documents and models that call the workflow as a tool.
INSTRUCTIONS_FIELD = Field(description="The task in plain words, with the values that the request needs.")
TOOL_IDS_FIELD = Field(description="Ids of the tools to choose from, else all.", json_schema_extra={"default": None})
TAGS_FIELD = Field(description="Choose only from tools with one of these tags.", json_schema_extra={"default": None})
FORMAT_FIELD = Field(description="Whether the answer is also formatted as text.", json_schema_extra={"default": False})
FORMAT_INSTRUCTIONS_FIELD = Field(
    description="How to format it, such as language, length and layout.", json_schema_extra={"default": None}
)


class WorkflowMetadata(TypedDict):
    """A run's usage: `usage` sums the tokens of its model calls."""

    usage: dict[str, Any]


class ToolOption(TypedDict):
    """A tool that the model may choose, as it is described to the model (W-04)."""

    tool_id: str
    name: str
    description: str


class ChosenRequest(TypedDict):
    """The model's choice after its check."""

    tool_id: str
    arguments: dict[str, Any]


class Failure(TypedDict):
    """The stage that failed, and the message for users."""

    stage: Stage
    message: str


class WantedFormat(TypedDict):
    """How the answer is to be formatted."""

    instructions: str | None


class WorkflowInput(TypedDict):
    """The caller's input (W-02); the next run of a thread does not inherit optional values."""

    user_instructions: Annotated[str, INSTRUCTIONS_FIELD]
    tool_ids: NotRequired[Annotated[list[str] | None, TOOL_IDS_FIELD, EphemeralValue]]
    tags: NotRequired[Annotated[list[str] | None, TAGS_FIELD, EphemeralValue]]
    format_response: NotRequired[Annotated[bool, FORMAT_FIELD, EphemeralValue]]
    response_format_instructions: NotRequired[Annotated[str | None, FORMAT_INSTRUCTIONS_FIELD, EphemeralValue]]


class WorkflowOutput(TypedDict):
    """The outcome of a run (W-02); `output` is the body after its field mappings, `http_spec` the sent request."""

    status: Annotated[Status, Field(description="An answer that could not be formatted is a success, too.")]
    selected_tool: Annotated[str | None, Field(description="Name of the chosen tool.")]
    http_spec: Annotated[
        dict[str, Any] | None,
        Field(description="The request: method, url, headers, query and body, without credentials."),
    ]
    raw_response: Annotated[
        dict[str, Any] | None,
        Field(description="The response: status_code, headers, body, execution_time_ms and body_encoding."),
    ]
    output: Annotated[Any, Field(description="The body, or the values that the tool's response mappings select.")]
    formatted_response: Annotated[str | None, Field(description="The answer as text.")]
    warning: Annotated[str | None, Field(description="A problem of an answer that was received.")]
    error: Annotated[str | None, Field(description="The reason of a failure.")]
    error_stage: Annotated[Stage | None, Field(description="The stage that failed.")]
    metadata: WorkflowMetadata


class WorkflowState(WorkflowInput, WorkflowOutput):
    """The input, the output, and what nodes pass to each other; nothing is formatted if `wanted_format` is None."""

    wanted_format: WantedFormat | None
    candidates: list[ToolOption]
    selection: ChosenRequest | None
    model_usage: Annotated[list[ModelUsage], merge_model_usage]
    failure: Failure | None


WorkflowUpdate = dict[str, Any]
"""State keys that a node writes; the others stay unchanged. The status is None until the run ends."""
WorkflowNode = Callable[..., Awaitable[WorkflowUpdate]]
"""A node; if it calls the model, it also takes the config, through which tokens are streamed."""

MAX_TOOL_IDS = 500
IdsOrTags = Annotated[
    list[Annotated[StrictStr, Field(min_length=1, max_length=200)]],
    Field(min_length=1, max_length=MAX_TOOL_IDS, strict=True),
]


class CheckedWorkflowInput(BaseModel):
    """`WorkflowInput` after validation: the task, the tools, and whether the answer is formatted as text."""

    model_config = ConfigDict(hide_input_in_errors=True)

    user_instructions: Annotated[StrictStr, INSTRUCTIONS_FIELD] = Field(min_length=1, max_length=100_000)
    tool_ids: Annotated[IdsOrTags | None, TOOL_IDS_FIELD] = None
    tags: Annotated[IdsOrTags | None, TAGS_FIELD] = None
    format_response: Annotated[StrictBool, FORMAT_FIELD] = False
    response_format_instructions: Annotated[StrictStr | None, FORMAT_INSTRUCTIONS_FIELD] = Field(
        default=None, max_length=20_000
    )

    @field_validator("user_instructions")
    @classmethod
    def _require_text(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value


def new_state() -> WorkflowUpdate:
    """Return the state of a workflow that has done nothing yet, whatever its thread did before."""
    unset: WorkflowUpdate = {
        name: None for name in WorkflowState.__annotations__ if name not in WorkflowInput.__annotations__
    }
    return {**unset, "metadata": WorkflowMetadata(usage=usage_summary([])), "candidates": []}
