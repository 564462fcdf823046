"""Graphs that show their input, their configuration and their user."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk.runtime import ServerRuntime
from typing_extensions import TypedDict


class Note(TypedDict, total=False):
    text: str
    seen: dict[str, Any]


def show_config(state: Note, config: RunnableConfig) -> Note:
    configured = config["configurable"]
    user = configured.get("langgraph_auth_user")
    shown = {name: value for name, value in configured.items() if name.startswith(("x-", "authorization", "user_id"))}
    if user is not None:
        shown |= {
            "identity": user.identity,
            "team": user["team"],
            "permissions": list(user.permissions),
            "id": configured["langgraph_auth_user_id"],
            "listed": configured["langgraph_auth_permissions"],
        }
    return {"text": state.get("text", ""), "seen": shown}


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(content="received")]}


keep = StateGraph(Note).add_node("show_config", show_config).add_edge(START, "show_config").compile()
talk = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()


# Why, and for whom, the graph was opened.
OPENED: list[str] = []


async def who(runtime: ServerRuntime) -> Any:  # type: ignore[type-arg]
    name = runtime.ensure_user().identity
    OPENED.append(f"{runtime.access_context} for {name}")

    def say(_state: Note) -> Note:
        return {"text": f"{runtime.access_context} for {name}"}

    builder: Any = StateGraph(Note)
    return builder.add_node("say", say).add_edge(START, "say").compile()
