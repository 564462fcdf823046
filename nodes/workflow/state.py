"""Define the state that the workflow's nodes read and write: plain JSON values, and never a credential (W-08)."""

from operator import add
from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

Stage = Literal["tool_retrieval", "llm_selection", "api_execution", "response_formatting"]
Status = Literal["success", "error"]


class ModelUsage(TypedDict):
    """What one model call of a stage has used; `cost_usd` is None where nobody knows the price."""

    stage: Stage
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class WorkflowMetadata(TypedDict):
    """What a run has used: `usage` sums `input_tokens`, `output_tokens`, `total_tokens`, `cost_usd` of its `calls`."""

    usage: dict[str, Any]


class Candidate(TypedDict):
    """A tool that the model may choose, as it is told of it (W-04)."""

    tool_id: str
    name: str
    description: str


class Selection(TypedDict):
    """The model's choice after it was checked."""

    tool_id: str
    arguments: dict[str, Any]


class Failure(TypedDict):
    """How a stage failed: what the answer may say of it."""

    stage: Stage
    message: str


class WorkflowInput(TypedDict):
    """What a caller gives (W-02)."""

    user_instructions: str
    tool_ids: list[str]
    format_response: NotRequired[bool]
    response_format_instructions: NotRequired[str | None]


class WorkflowOutput(TypedDict):
    """What a run leaves (W-02); `output` is the answer's body after its field mappings, `http_spec` what was sent."""

    status: Status
    selected_tool: str | None
    http_spec: dict[str, Any] | None
    raw_response: dict[str, Any] | None
    output: Any
    formatted_response: str | None
    warning: str | None
    error: str | None
    error_stage: Stage | None
    metadata: WorkflowMetadata


class WorkflowState(WorkflowInput, WorkflowOutput):
    """The input, the output, and what the nodes tell each other."""

    candidates: list[Candidate]
    selection: Selection | None
    model_usage: Annotated[list[ModelUsage], add]
    warnings: Annotated[list[str], add]
    failure: Failure | None


class WorkflowUpdate(TypedDict, total=False):
    """What a node writes; absent keys stay as they are."""

    status: Status
    selected_tool: str | None
    http_spec: dict[str, Any] | None
    raw_response: dict[str, Any] | None
    output: Any
    formatted_response: str | None
    warning: str | None
    error: str | None
    error_stage: Stage | None
    metadata: WorkflowMetadata
    candidates: list[Candidate]
    selection: Selection | None
    model_usage: list[ModelUsage]
    warnings: list[str]
    failure: Failure | None
