"""Tools that need approval, for the graphs' tests: they record their calls."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.fixtures.scripted_model import ScriptedModel, calling
from toolweave.graphs import build_agent_loop
from toolweave.graphs.agent_loop import AgentGraph

THREAD: Any = {"configurable": {"thread_id": "t"}}
GO: Any = {"messages": [HumanMessage("go")]}


class Desk:
    """A harmless tool `look`, and `erase` and `move`, which need approval; `ran` has every call carried out."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []

        @tool
        async def look(path: str = "") -> str:
            """Look at a file."""
            return self._note("look", path=path)

        @tool
        async def erase(path: str) -> str:
            """Erase a file."""
            return self._note("erase", path=path)

        @tool
        async def move(path: str, to: str) -> str:
            """Move a file."""
            return self._note("move", path=path, to=to)

        for gated in (erase, move):
            gated.metadata = {"requires_approval": True}
        self.tools: list[BaseTool] = [look, erase, move]

    def graph(self, *turns: Any, **options: Any) -> AgentGraph:
        """Build the agent loop with these tools on a checkpointer."""
        self.model = ScriptedModel(turns=list(turns))
        return build_agent_loop(tools=self.tools, model=self.model, checkpointer=InMemorySaver(), **options)

    async def paused_at(self, *requested: Any) -> AgentGraph:
        """Run a turn until these calls wait for approval; the model's next answer is "ok"."""
        graph = self.graph(calling(*requested), "ok")
        await graph.ainvoke(GO, THREAD)
        return graph

    def _note(self, name: str, **arguments: Any) -> str:
        self.ran.append((name, arguments))
        return f"{name} done"


def requests(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the approval requests: the value of the run's only interrupt."""
    [interrupted] = result["__interrupt__"]
    assert isinstance(interrupted.value, list)
    return interrupted.value


def results(result: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Map the ids of calls to their results' status and text."""
    found = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert len({message.tool_call_id for message in found}) == len(found), "a call has more than one result"
    return {message.tool_call_id: (message.status, message.text) for message in found}


def calls(result: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """List the calls as the dialogue shows them."""
    turns = [message for message in result["messages"] if isinstance(message, AIMessage)]
    return [(call["name"], call["args"]) for message in turns for call in message.tool_calls]
