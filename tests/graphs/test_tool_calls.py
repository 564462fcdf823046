"""What can go wrong with a tool call, and the result that the model gets (A-08); each call is its own task (S-07)."""

import asyncio
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from mcp.types import Tool

from tests.fixtures.logged import logged
from tests.fixtures.scripted_model import ScriptedModel, add, calling
from tests.graphs.gated_tools import GO, THREAD
from toolweave.errors import ToolTimeout
from toolweave.graphs import build_agent_loop
from toolweave.graphs.agent_loop import AgentGraph
from toolweave.servers.connections.tool import McpTool


async def results_of(turn: AIMessage, *tools: BaseTool) -> list[ToolMessage]:
    """Run one turn of tool calls; the run must go on to the model's answer."""
    graph = build_agent_loop(tools=list(tools), model=ScriptedModel(turns=[turn, "understood"]))
    result = await graph.ainvoke(GO)
    assert (result["status"], result["messages"][-1].text) == ("done", "understood")
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


def failing(error: Exception) -> BaseTool:
    async def fail() -> str:
        raise error

    return StructuredTool.from_function(coroutine=fail, name="fail", description="Fail.")


@pytest.mark.requirement("A-08")
@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (calling(("substract", {"a": 1}, "x")), "There is no tool 'substract'. Available tools: add."),
        (
            AIMessage("", invalid_tool_calls=[invalid_tool_call(name="add", args='{"a": 1', id="x", error="cut")]),
            'The arguments are not a JSON object: {"a": 1',
        ),
        (calling(("add", {"a": "one"}, "x")), "a: Input should be a valid integer"),
        (calling(("add", {"a": "one"}, "x")), "b: Field required"),
    ],
)
async def test_a_call_that_cannot_run_is_answered_with_the_reason(turn: AIMessage, text: str) -> None:
    [result] = await results_of(turn, add)

    assert (result.status, result.tool_call_id) == ("error", "x")
    assert text in result.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolException("x" * 100_000), "x" * 2_000),
        (ToolException("the list is full"), "the list is full"),
        (ToolTimeout("search did not answer within 5 s.", server="web"), "search did not answer within 5 s."),
        (TimeoutError(), "The tool did not answer in time and was stopped. Please try again later."),
        (TimeoutError("busy until 17:00"), "The tool failed: TimeoutError: busy until 17:00"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_error_of_a_tool_reaches_the_model_in_at_most_2000_characters(error: Exception, text: str) -> None:
    [result] = await results_of(calling(("fail", {})), failing(error))

    assert (result.status, result.text) == ("error", text)


@pytest.mark.requirement("U-05")
async def test_an_exception_of_the_embedding_programs_tool_reaches_the_model_cut_and_the_log_without_values() -> None:
    async def fail() -> str:
        """Fail."""
        password = "hunter2"
        raise ValueError(f"no customer has the number 7{' !' * 2_000 if password else ''}")

    with logged("ERROR", format="{extra[tool]} {message} {exception}", diagnose=True) as lines:
        graph = build_agent_loop(tools=[fail], model=ScriptedModel(turns=[calling(("fail", {})), "ok"]))
        result = (await graph.ainvoke(GO))["messages"][2]

    assert result.text.startswith("The tool failed: ValueError: no customer has the number 7 ! !")
    assert (result.status, len(result.text)) == ("error", 2_000)
    assert len(lines) == 1
    assert lines[0].startswith("fail a tool failed")
    assert "Traceback" in lines[0]
    assert "hunter2'" not in lines[0]


async def break_down(*_: Any) -> Any:
    raise RuntimeError("at /srv/app.py")


@pytest.mark.requirement("U-05")
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (
            McpTool(name="fail", description="Fail.", args_schema={}, server="x", mcp_name="fail", call=break_down),
            "/srv/app.py",
        ),
        (
            convert_mcp_tool_to_langchain_tool(
                None,
                Tool(name="fail", inputSchema={"type": "object", "properties": {}}),
                connection={"transport": "stdio", "command": "/no/such/program", "args": []},
            ),
            "/no/such/program",
        ),
    ],
    ids=["the plane's", "the adapters'"],
)
async def test_an_internal_error_of_an_mcp_tool_reaches_the_log_and_not_the_model(
    broken: BaseTool, reason: str
) -> None:
    with logged("ERROR") as lines:
        [result] = await results_of(calling(("fail", {})), broken)

    assert result.text == "The tool failed because of an internal error. Please try again later."
    assert reason in lines[0]


async def test_text_blocks_of_a_result_are_joined_and_other_blocks_stay() -> None:
    image = {"type": "image", "base64": "AA==", "mime_type": "image/png"}

    async def blocks(*, with_image: bool) -> list[dict[str, Any]]:
        texts = [{"type": "text", "text": "one", "id": "lc_1"}, {"type": "text", "text": "two", "id": "lc_2"}]
        return [*texts, image] if with_image else texts

    several = StructuredTool.from_function(coroutine=blocks, name="blocks", description="Return blocks.")

    results = await results_of(calling(("blocks", {"with_image": False}), ("blocks", {"with_image": True})), several)

    assert results[0].content == "one\ntwo"
    assert isinstance(results[1].content, list)
    assert results[1].content[2] == image


async def test_tools_get_state_and_runtime_and_may_answer_with_a_command() -> None:
    store = InMemoryStore()

    @tool
    def first_words(state: Annotated[dict[str, Any], InjectedState], runtime: ToolRuntime) -> Command[Any]:
        """Repeat the user's message."""
        text = f"{state['messages'][0].text} in {runtime.config['configurable']['thread_id']} {runtime.store is store}"
        return Command(update={"messages": [ToolMessage(text, tool_call_id=runtime.tool_call_id)]})

    graph = build_agent_loop(
        tools=[first_words],
        model=ScriptedModel(turns=[calling(("first_words", {}, "x")), "understood"]),
        checkpointer=InMemorySaver(),
        store=store,
    )

    result = await graph.ainvoke({"messages": [HumanMessage("hello")]}, THREAD)

    assert [message.text for message in result["messages"]] == ["hello", "", "hello in t True", "understood"]


@pytest.mark.parametrize("call_id", ["", "call_0"])
async def test_calls_keep_apart_even_if_the_endpoint_repeats_its_ids(call_id: str) -> None:
    turns: list[Any] = [calling(("add", {"a": n, "b": 0}, call_id), ("add", {"a": n, "b": 1}, call_id)) for n in (1, 2)]

    graph = build_agent_loop(tools=[add], model=ScriptedModel(turns=[*turns, "ok"]))
    result = await graph.ainvoke(GO)

    calls = [
        call["id"] for message in result["messages"] if isinstance(message, AIMessage) for call in message.tool_calls
    ]
    results = [message for message in result["messages"] if isinstance(message, ToolMessage)]
    assert len({*calls, ""}) == 5
    assert [message.tool_call_id for message in results] == calls
    assert [message.text for message in results] == ["1", "2", "2", "3"]


class Pair:
    """Two tools: one that finishes at once and counts, one that asks a person or hangs."""

    def __init__(self) -> None:
        self.finished = 0
        self.hanging = asyncio.Event()

        @tool
        async def quick() -> str:
            """Finish at once."""
            self.finished += 1
            return "quick"

        @tool
        async def ask() -> str:
            """Ask a person."""
            return str(interrupt("may I?"))

        @tool
        async def hang() -> str:
            """Never finish the first time."""
            if not self.hanging.is_set():
                self.hanging.set()
                await asyncio.Event().wait()
            return "late"

        self.tools = [quick, ask, hang]

    def graph(self, model: ScriptedModel) -> AgentGraph:
        return build_agent_loop(tools=self.tools, model=model, checkpointer=InMemorySaver())

    async def cancel_when_hanging(self, run: asyncio.Task[Any], *events: asyncio.Event) -> None:
        async with asyncio.timeout(60):
            for event in (*events, self.hanging):
                await event.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run


async def test_a_finished_call_is_not_repeated_when_its_sibling_is_resumed() -> None:
    pair = Pair()
    model = ScriptedModel(turns=[calling(("quick", {}), ("ask", {})), "ok"])
    graph = pair.graph(model)

    paused = await graph.ainvoke(GO, THREAD)
    result = await graph.ainvoke(Command(resume="yes"), THREAD)

    assert [entry.value for entry in paused["__interrupt__"]] == ["may I?"]
    assert pair.finished == 1
    assert [message.text for message in result["messages"]] == ["go", "", "quick", "yes", "ok"]
    assert result["iterations"] == 2, "resuming is no new input"


async def test_a_cancelled_run_continues_without_repeating_finished_calls() -> None:
    pair = Pair()
    model = ScriptedModel(turns=[calling(("quick", {}), ("hang", {})), "ok"])
    graph = pair.graph(model)

    quick_is_done = asyncio.Event()

    async def run_until_cut_off() -> None:
        async for update in graph.astream(GO, THREAD, stream_mode="updates"):
            if "tools" in update:
                quick_is_done.set()

    await pair.cancel_when_hanging(asyncio.create_task(run_until_cut_off()), quick_is_done)
    result = await graph.ainvoke(None, THREAD)

    assert pair.finished == 1
    assert [message.text for message in result["messages"]] == ["go", "", "quick", "late", "ok"]


async def test_a_new_input_after_a_cut_off_run_reaches_the_model_with_every_call_answered() -> None:
    pair = Pair()
    model = ScriptedModel(turns=[calling(("hang", {}, "h")), "never mind"])
    graph = pair.graph(model)

    await pair.cancel_when_hanging(asyncio.create_task(graph.ainvoke(GO, THREAD)))
    result = await graph.ainvoke({"messages": [HumanMessage("forget it")]}, THREAD)

    assert [message.text for message in result["messages"]] == ["go", "", "forget it", "never mind"]
    assert [message.type for message in model.prompts[-1]] == ["human", "ai", "tool", "human"]
    assert "interrupted" in model.prompts[-1][2].text
