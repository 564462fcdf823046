"""Define the state that the agent loop's nodes read and write."""

from collections.abc import Awaitable
from typing import Annotated, Any, Literal, Protocol

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from langgraph.types import Command
from typing_extensions import TypedDict

from toolweave.nodes.tool_task import WaitingCall

Status = Literal["running", "done", "iteration_limit", "length", "content_filter", "tools_missing", "no_tools"]
"""How a run stands or ended. `length` and `content_filter` are the model's own finish reasons for a cut answer."""


class AgentInput(TypedDict):
    """What a caller gives: the new messages."""

    messages: Annotated[list[AnyMessage], add_messages]


class AgentOutput(AgentInput):
    """What a run leaves: the dialogue, the number of model calls since the last input, and how it ended."""

    iterations: int
    status: Status


def collected(waiting: list[WaitingCall], more: list[WaitingCall]) -> list[WaitingCall]:
    """Gather what the tasks of a turn write; an empty list says that all is answered."""
    return [*waiting, *more] if more else []


class AgentState(AgentOutput):
    """The output, what a person is to be asked, and the number of steps that the caller's recursion limit allows.

    `to_approve` maps the ids of the last message's calls that need approval to their tools, by the tools' own names;
    `waiting_calls` are those whose servers asked something. Both are absent on threads that never needed a person.
    """

    to_approve: dict[str, str]
    waiting_calls: Annotated[list[WaitingCall] | None, collected]
    remaining_steps: RemainingSteps


class AgentUpdate(TypedDict, total=False):
    """What a node writes; absent keys stay as they are."""

    messages: list[AnyMessage]
    iterations: int
    status: Status
    to_approve: dict[str, str]
    waiting_calls: list[WaitingCall]


class StateNode(Protocol):
    """A node that needs the state only."""

    def __call__(self, state: AgentState) -> AgentUpdate | Awaitable[AgentUpdate]:
        """Return what changes."""
        ...


class ModelNode(Protocol):
    """A node that calls the model; the config carries the stream its tokens go to."""

    def __call__(self, state: AgentState, config: RunnableConfig) -> Awaitable[AgentUpdate]:
        """Return what changes."""
        ...


class RoutingNode(Protocol):
    """A node that says itself which tasks follow it."""

    def __call__(self, state: AgentState, config: RunnableConfig) -> Awaitable[Command[Any]]:
        """Return what changes, and where to go on."""
        ...
