"""Graphs whose nodes use the caller's tokens; their state has only the hashes of these."""

import hashlib
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from tests.fixtures.gated_app import pass_gate


class State(TypedDict, total=False):
    gate: str
    answer: str
    known: dict[str, str]


def hashed(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def known_in(config: RunnableConfig) -> dict[str, str]:
    configurable = config["configurable"]
    user = configurable["langgraph_auth_user"]
    known = {"token": user["token"], "key": user["accounts"]["shop"]["key"]}
    # A cron fires without a request.
    known |= {"header": configurable["x-session"]} if "x-session" in configurable else {}
    return {name: hashed(value) for name, value in known.items()}


async def use(_state: State, config: RunnableConfig) -> State:
    return {"known": known_in(config)}


async def question(_state: State) -> State:
    return {"answer": interrupt("go on?")}


async def failing(_state: State) -> State:
    raise RuntimeError("the service is down")


async def holding(state: State) -> State:
    await pass_gate(state["gate"])
    return {}


def chain(**nodes: Any) -> Any:
    builder: Any = StateGraph(State)
    builder.add_sequence(list(nodes.items()))
    return builder.add_edge(START, next(iter(nodes))).compile()


show = chain(use=use)
ask = chain(first=use, question=question, use=use)
fail = chain(use=use, failing=failing)
hold = chain(first=use, holding=holding, use=use)
nested = chain(inner=chain(use=use), use=use)
