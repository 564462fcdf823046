"""Define the state that the agent loop's nodes read and write."""

from collections.abc import Awaitable
from typing import Annotated, Literal, Protocol

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

Status = Literal["running", "done", "iteration_limit", "length", "content_filter", "tools_missing", "no_tools"]
"""How a run stands or ended. `length` and `content_filter` are the model's own finish reasons for a cut answer."""


class AgentInput(TypedDict):
    """What a caller gives: the new messages."""

    messages: Annotated[list[AnyMessage], add_messages]


class AgentOutput(AgentInput):
    """What a run leaves: the dialogue, the number of model calls since the last input, and how it ended."""

    iterations: int
    status: Status


class AgentState(AgentOutput):
    """The output plus the number of graph steps that the caller's recursion limit still allows."""

    remaining_steps: RemainingSteps


class AgentUpdate(TypedDict, total=False):
    """What a node writes; absent keys stay as they are."""

    messages: list[AnyMessage]
    iterations: int
    status: Status


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
