"""An agent for clients of other protocols: tools of the server and of the client, approval, a shared state, a failure.

The application beside the API is Toolweave's own, with the gates.
"""

import asyncio
import re
from typing import Annotated, Any

from client_model import WordByWord  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from tests.fixtures.gated_app import chain, gate_routes
from tests.fixtures.scripted_model import ScriptedModel
from toolweave.api.app import create_app
from toolweave.graphs import build_agent_loop

app = create_app()
app.include_router(gate_routes)
CALL = re.compile(r"(\w+)\((\w+)=(\w+)\)")


@tool
def double(n: int) -> str:
    """Double a number."""
    return str(2 * n)


@tool
def remove(name: str) -> str:
    """Remove a thing."""
    return f"removed {name}"


remove.metadata = {"requires_approval": True}


def call_as_written(prompt: list[BaseMessage]) -> AIMessage:
    """Call each function that the user writes as `name(field=value)`; then say the results."""
    place = max(place for place, message in enumerate(prompt) if isinstance(message, HumanMessage))
    results = [message.text for message in prompt[place:] if isinstance(message, ToolMessage)]
    written = CALL.findall(prompt[place].text)
    if results or not written:
        return AIMessage(f"done: {', '.join(results)}")
    calls = [
        {"name": name, "args": {field: int(value) if value.isdigit() else value}, "id": f"call-{len(prompt)}-{number}"}
        for number, (name, field, value) in enumerate(written)
    ]
    return AIMessage("calling", tool_calls=calls)


agent = build_agent_loop(tools=[double, remove], model=ScriptedModel(turns=[call_as_written]))


class Board(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    colour: str


async def paint(state: Board) -> dict[str, Any]:
    return {"colour": f"light {state.get('colour', 'grey')}"}


async def fail(state: Board) -> None:
    await WordByWord(prefix="about to").ainvoke([HumanMessage("fail")])
    if state["messages"][-1].text != "paint":
        raise ValueError("a secret of the server")


fails = chain(Board, ("paint", paint), ("fail", fail))


async def sing(state: Board) -> dict[str, Any]:
    voices = (WordByWord(prefix=f"{name}:").ainvoke(state["messages"]) for name in ("alto", "bass"))
    return {"messages": await asyncio.gather(*voices)}


duet = chain(Board, ("sing", sing))
