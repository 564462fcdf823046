"""Start a run: refuse an empty dialogue and set the counter back, once per new input (D-10)."""

from toolweave.errors import InvalidRequest
from toolweave.nodes.agent_state import AgentState, AgentUpdate


def accept_input(state: AgentState) -> AgentUpdate:
    """Begin to count model calls anew.

    Raises:
        InvalidRequest: the thread has no message that the model could answer.
    """
    if not state.get("messages"):
        raise InvalidRequest('There is nothing to answer: the input needs {"messages": [...]} with at least one.')
    return {"iterations": 0, "status": "running"}
