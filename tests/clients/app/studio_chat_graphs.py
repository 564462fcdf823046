"""Graphs for the studio's chat: tools behind a gate, approvals, questions, a form, a long answer, a failure."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Self

from client_graphs import approve, broken, count, talk  # type: ignore[import-not-found]  # noqa: F401
from client_model import WordByWord  # type: ignore[import-not-found]
from langchain_core.language_models.chat_models import BaseChatModel, agenerate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import BaseModel, Field

from tests.fixtures.gated_app import Graph, chain, pass_gate
from toolweave.graphs.agent_loop import build_agent_loop
from toolweave.nodes.tool_calls import QUESTIONS_KEY

failures: dict[str, int] = {}
COLOUR_QUESTION = {
    "message": "Which colour?",
    "requestedSchema": {
        "type": "object",
        "properties": {"colour": {"type": "string", "title": "Colour", "minLength": 3}},
        "required": ["colour"],
    },
}


class Caller(BaseChatModel):
    """Call the tools that the user's message names (`mail:Ann paint:wall`), then repeat their results."""

    @property
    def _llm_type(self) -> str:
        return "caller"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Self:  # noqa: ARG002
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ARG002
        return await agenerate_from_stream(self._astream(messages))

    async def _astream(
        self,
        messages: list[BaseMessage],
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=_answer(messages))


def _answer(messages: Sequence[BaseMessage]) -> AIMessageChunk:
    if isinstance(messages[-1], ToolMessage):
        results = [message.text for message in messages if isinstance(message, ToolMessage)]
        return AIMessageChunk(content=f"results: {'; '.join(results)}")
    chunks = [
        {"name": name, "args": f'{{"to": "{to}"}}', "id": f"call-{len(messages)}-{index}", "index": index}
        for index, (name, _, to) in enumerate(word.partition(":") for word in messages[-1].text.split())
    ]
    return AIMessageChunk(content="", tool_call_chunks=chunks)


@tool
async def mail(to: str) -> str:
    """Send a mail; a recipient `@name` waits at that gate, and `nobody` does not exist."""
    if to == "nobody":
        raise ValueError("there is no mailbox of nobody")
    if to.startswith("@"):
        await pass_gate(to.removeprefix("@"))
        return "sent"
    return f"sent to {to}"


@tool
async def post(to: str) -> str:
    """Send a letter."""
    return f"posted to {to}"


post.metadata = {"requires_approval": True}


class Paint(BaseTool):
    """A tool whose server asks for a colour."""

    name: str = "paint"
    description: str = "Paint something."
    response_format: str = "content_and_artifact"  # type: ignore[assignment]
    answers: list[dict[str, Any]] = Field(default_factory=list)

    def with_answers(self, answers: list[dict[str, Any]]) -> Self:
        return self.model_copy(update={"answers": answers})

    def with_facts(self, facts: dict[str, Any]) -> Self:
        facts.update(server="studio", duration_ms=1234.5, attempts=3)
        return self

    async def _arun(self, to: str) -> tuple[str, Any]:
        if not self.answers:
            return "", {QUESTIONS_KEY: [COLOUR_QUESTION]}
        return f"painted {to} {self.answers[0]['content'] or 'nothing'}", None

    def _run(self, to: str) -> tuple[str, Any]:
        raise NotImplementedError


async def ask(state: MessagesState) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"guests": {"type": "integer", "title": "Guests"}},
        "required": ["guests"],
    }
    given = interrupt({"question": "How many guests?", "response_schema": schema})
    return {"messages": [AIMessage(f"A table for {given['guests']}")]}


ANSWERS: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "anything": {},
    "confirm": {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]},
}


async def ask_for(state: MessagesState) -> dict[str, Any]:
    """Ask for a value of the schema that the message names."""
    schema = ANSWERS[state["messages"][-1].text]
    given = interrupt({"question": "What is it?", "response_schema": schema})
    return {"messages": [AIMessage(f"It is {given!r}")]}


class Inner(BaseModel):
    name: str = "leaf"
    child: "Inner | None" = None


class Tree(BaseModel):
    title: str
    inner: Inner
    either: int | str | None = None
    loud: bool | None = None
    log: list[str] = Field(default_factory=list)


async def describe_tree(state: Tree) -> dict[str, Any]:
    return {"log": [f"{state.title}, {state.inner.name}"]}


async def stumble(state: MessagesState) -> dict[str, Any]:
    """Fail the first time for each message."""
    text = state["messages"][-1].text
    failures[text] = failures.get(text, 0) + 1
    if failures[text] == 1:
        raise ValueError("the first attempt always fails")
    return {"messages": [AIMessage("The second attempt worked")]}


async def describe(state: MessagesState) -> dict[str, Any]:
    content = state["messages"][-1].content
    kinds = [block["type"] for block in content if isinstance(block, dict)] if isinstance(content, list) else ["text"]
    return {"messages": [AIMessage(f"I got {', '.join(kinds)}\n\n| a | b |\n|---|---|\n| **1** | 2 |")]}


async def mix_strings(state: MessagesState) -> dict[str, Any]:
    """Answer with strings among the content blocks, as LangChain allows."""
    call = AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": f"call-{len(state['messages'])}"}])
    result = ToolMessage(["found ", {"type": "text", "text": "it"}], tool_call_id=call.tool_calls[0]["id"], name="read")
    return {"messages": [call, result, AIMessage(["plain ", {"type": "text", "text": "answer"}])]}


async def supervise(state: MessagesState) -> dict[str, Any]:
    """Wait in the form of LangChain's middleware."""
    request = {"name": "send", "args": {"to": "Ann"}, "description": "Send it **now**"}
    answer = interrupt({"action_requests": [request], "review_configs": []})
    return {"messages": [AIMessage(f"decided: {answer['decisions'][0]['type']}")]}


async def increase(number: int | None) -> int:
    return (number or 0) + 1


class Paced(WordByWord):  # type: ignore[misc]
    """Say the words at the rate of a fast model."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk
            await asyncio.sleep(0.002)


async def say_at_pace(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    return {"messages": [await Paced(prefix="you said:").ainvoke(state["messages"], config)]}


paced = chain(MessagesState, ("say", say_at_pace))
agent = build_agent_loop(tools=[mail, post, Paint()], model=Caller())


def pair() -> Graph:
    """Two nodes that ask at the same time."""

    def asking(name: str) -> Any:
        async def node(state: MessagesState) -> dict[str, Any]:
            return {"messages": [AIMessage(f"{name}: {interrupt(f'What is {name}?')}")]}

        return node

    builder = StateGraph(MessagesState)
    for name in ("left", "right"):
        builder.add_node(name, asking(name))
        builder.add_edge(START, name)
    return builder.compile()


both = pair()
form = chain(MessagesState, ("ask", ask))
ask_value = chain(MessagesState, ("ask_for", ask_for))
tree = chain(Tree, ("describe_tree", describe_tree))
retry = chain(MessagesState, ("stumble", stumble))
files = chain(MessagesState, ("describe", describe))
middleware = chain(MessagesState, ("supervise", supervise))
number = chain(int, ("increase", increase))
strings = chain(MessagesState, ("mix", mix_strings))
