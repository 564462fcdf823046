"""Graphs that declare what they take, give and are: schemas, a context class, a name, functions, factories."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Question(TypedDict, total=False):
    question: str


class Answer(TypedDict, total=False):
    answer: str


class Both(Question, Answer, total=False):
    draft: str


def write_draft(state: Both) -> Both:
    return {"draft": f"{state.get('question')}, hm"}


def write_answer(state: Both) -> Both:
    return {"answer": f"{state.get('draft')}!"}


narrow: Any = (
    StateGraph(Both, input_schema=Question, output_schema=Answer)
    .add_node("draft", write_draft)
    .add_node("answer", write_answer)
    .add_edge(START, "draft")
    .add_edge("draft", "answer")
    .add_edge("answer", END)
    .compile()
)


class Shown(TypedDict, total=False):
    shown: Any
    log: Annotated[list[Any], operator.add]


@dataclass
class Settings:
    user: str = "nobody"
    labels: list[str] = field(default_factory=list)


class Wishes(TypedDict, total=False):
    user: str


def show_context(state: Shown) -> Shown:
    context = get_runtime(Settings).context
    return {"shown": repr(context)}


with_settings: Any = StateGraph(Shown, context_schema=Settings).add_node("show", show_context).set_entry_point("show")
with_wishes: Any = StateGraph(Shown, context_schema=Wishes).add_node("show", show_context).set_entry_point("show")


@entrypoint()
def asking_function(topic: str) -> dict[str, Any]:
    """Ask, then give what came back."""
    return {"topic": topic, "answer": interrupt({"about": topic})}


def ask_beside(state: Shown) -> Shown:
    return {"log": [interrupt("still there?")]}


def fail_beside(state: Shown) -> Shown:
    raise ValueError("this half fails")


half_failing: Any = (
    StateGraph(Shown)
    .add_node("ask", ask_beside)
    .add_node("fail", fail_beside)
    .add_edge(START, "ask")
    .add_edge(START, "fail")
    .compile(name="Half a Graph")
)


def made_to_measure(config: RunnableConfig) -> Any:
    """Make a graph whose node is named by the configuration."""
    name = config["configurable"].get("node", "plain")
    return StateGraph(Shown).add_node(name, lambda _: {"shown": name}).set_entry_point(name)
