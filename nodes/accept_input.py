"""Start a run: refuse an empty dialogue and set the counter back, once per new input (D-10)."""

from langchain_core.messages import AnyMessage, ToolMessage

from toolweave.errors import InvalidRequest
from toolweave.nodes.agent_state import AgentState, AgentUpdate
from toolweave.nodes.dialogue import RequestedCall, requested_calls

UNDECIDED = "Not executed: the user was asked about the calls of this turn and went on without a decision."
UNANSWERED = "Not finished: the tool's server asked the user something, who went on without an answer."


def accept_input(state: AgentState) -> AgentUpdate:
    """Begin to count model calls anew.

    Raises:
        InvalidRequest: the thread has no message that the model could answer.
    """
    if not state.get("messages"):
        raise InvalidRequest('There is nothing to answer: the input needs {"messages": [...]} with at least one.')
    begun: AgentUpdate = {"iterations": 0, "status": "running"}
    if state.get("to_approve") or state.get("waiting_calls"):
        begun |= {"messages": _left_behind(state), "to_approve": {}, "waiting_calls": []}
    return begun


def _left_behind(state: AgentState) -> list[AnyMessage]:
    """Answer the calls of a turn for which a person was asked, who wrote something new instead."""
    waiting = {each["call"]["id"] for each in state.get("waiting_calls") or []}
    asked = {*waiting, *state.get("to_approve", ())}
    turns = [requested_calls(message) for message in state["messages"]]
    left: list[RequestedCall] = next(
        (turn for turn in reversed(turns) if any(call["id"] in asked for call in turn)), []
    )
    answered = {message.tool_call_id for message in state["messages"] if isinstance(message, ToolMessage)}
    return [
        ToolMessage(
            UNANSWERED if call["id"] in waiting else UNDECIDED,
            name=call["name"],
            tool_call_id=call["id"],
            status="error",
        )
        for call in left
        if call["id"] not in answered
    ]
