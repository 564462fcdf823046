"""Say what one task of the tool node is given, and what it leaves when its server asks a person something (S-07)."""

from typing import Any, Literal, Protocol, Self, runtime_checkable

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from toolweave.nodes.dialogue import RequestedCall

QUESTIONS_KEY = "toolweave/questions"
"""Where the artifact of a tool's message holds the questions that a person must answer before there is a result."""


class Question(TypedDict):
    """What a tool's server wants to know, and the JSON schema of the flat object that answers it."""

    message: str
    requestedSchema: dict[str, Any]


class Answer(Question):
    """A question with its answer; `content` fits the schema, and is None for a question declined."""

    action: Literal["accept", "decline"]
    content: dict[str, Any] | None


class ToolTask(RequestedCall, total=False):
    """A call as the tool node gets it; only nodes that asked a person add to what the model requested.

    `approved_tool`: a person let this very call of this tool run. `answers`: what a person said to its server's
    questions so far.
    """

    approved_tool: str
    answers: list[Answer]


class WaitingCall(TypedDict):
    """A call whose server asks something: it is issued anew when a person has answered."""

    call: ToolTask
    questions: list[Question]


@runtime_checkable
class AskingTool(Protocol):
    """A tool whose server may ask a person in the middle of a call, as MCP's elicitation has it."""

    def answering(self, answers: list[Answer]) -> Self:
        """Return the tool for one call with these answers; other questions become its message's artifact."""
        ...


def task_of(call: RequestedCall, *, approved_tool: str | None = None) -> ToolTask:
    """Make the task of a call as it was requested."""
    task: ToolTask = {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
    return task | {"approved_tool": approved_tool} if approved_tool else task


def requested_call(task: ToolTask, name: str) -> ToolCall:
    """Return the call that a task is about, without what persons have said to it, under the tool's own name."""
    return {"name": name, "args": as_object(task["args"]), "id": task["id"], "type": "tool_call"}


def as_object(arguments: dict[str, Any] | str) -> dict[str, Any]:
    """Return the arguments of a call; none for those that are no JSON object."""
    return arguments if isinstance(arguments, dict) else {}


def requires_approval(tool: BaseTool) -> bool:
    """Say whether a person is asked before the tool runs; any tool may say so in its metadata."""
    return (tool.metadata or {}).get("requires_approval") is True
