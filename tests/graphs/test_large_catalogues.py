"""Of a large catalogue the model is offered what fits the conversation; it can call the other tools too (D-2)."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.nodes.many_tools import many_tools
from tests.servers.connections.peers import log_records
from toolweave.graphs import build_agent_loop
from toolweave.nodes.tool_catalog import FixedTools
from toolweave.nodes.tool_selection import ToolSelector

TOOLS = many_tools()
ORDER = [each.name for each in TOOLS]


async def run(*turns: Any, task: str, tools: list[BaseTool] = TOOLS, **options: Any) -> tuple[ScriptedModel, list[Any]]:
    model = ScriptedModel(turns=[*turns, "done"])
    graph = build_agent_loop(tools=tools, model=model, **options)
    result = await graph.ainvoke({"messages": [HumanMessage(task)]})
    assert result["status"] == "done"
    return model, [message for message in result["messages"] if isinstance(message, ToolMessage)]


async def test_a_large_catalogue_is_cut_to_the_relevant_tools_in_registry_order() -> None:
    with log_records() as records:
        model, _ = await run(task="email Anna the weather forecast for Rome", max_tools=20)
    [offered] = model.offered
    assert len(offered) == 20
    assert {"gmail_send_message", "weather_get_forecast", "find_tools"} <= set(offered)
    assert offered[:-1] == [name for name in ORDER if name in offered]
    lines = [record["message"] for record in records if "tools for the model" in record["message"]]
    assert lines == [f"selected 19 of {len(TOOLS)} tools for the model, left out {len(TOOLS) - 19}"]


async def test_a_catalogue_that_fits_is_offered_whole_and_alone() -> None:
    model, _ = await run(task="hello", tools=TOOLS[:64])
    assert model.offered == [ORDER[:64]]
    model, _ = await run(task="hello", tools=TOOLS[:65])
    assert len(model.offered[0]) == 64


async def test_a_tool_that_is_not_offered_can_be_called_and_is_offered_from_then_on() -> None:
    model, [result] = await run(calling(("spotify_pause", {})), task="what is the weather in Rome?", max_tools=5)
    assert (result.status, result.content) == ("success", "spotify_pause []")
    assert ["spotify_pause" in names for names in model.offered] == [False, True]


async def test_a_model_can_search_for_tools_and_is_then_offered_the_results() -> None:
    find = calling(("find_tools", {"query": "refund a customer"}))
    model, [found] = await run(find, task="what is the weather in Rome?", max_tools=5)
    assert "stripe_refund_payment: Refund a payment in part or whole" in found.text.splitlines()
    assert "stripe_refund_payment" not in model.offered[0]
    assert set(found.artifact["found_tools"]) & set(model.offered[1])


async def test_what_failed_draws_in_the_tools_it_speaks_of() -> None:
    async def complain() -> str:
        return "never"

    complaint = StructuredTool.from_function(coroutine=complain, name="complain", description="Complain.")
    messages: list[AnyMessage] = [
        HumanMessage("zzz"),
        calling(("complain", {}, "1")),
        ToolMessage("The robot vacuum must clean the floor first.", tool_call_id="1", status="error"),
    ]
    tools = [complaint, *TOOLS]
    offered = await ToolSelector(FixedTools(tuple(tools)), 5).select(tools, messages)
    names = [each["function"]["name"] for each in offered]
    assert {"complain", "home_start_vacuum"} <= set(names)


async def test_earlier_messages_of_the_user_count_less_than_the_newest() -> None:
    messages: list[AnyMessage] = [HumanMessage("play a song"), AIMessage("ok"), HumanMessage("book a hotel room")]
    offered = await ToolSelector(FixedTools(tuple(TOOLS)), 8).select(TOOLS, messages)
    names = [each["function"]["name"] for each in offered]
    assert {"hotels_book", "spotify_play"} <= set(names)


async def test_the_same_conversation_is_offered_the_same_tools() -> None:
    offers = {tuple((await run(task="send the invoice to the customer", max_tools=30))[0].offered[0]) for _ in range(3)}
    assert len(offers) == 1


@pytest.mark.parametrize("task", ["zzz", "天気", "\u200b", "x" * 1_000_000])
async def test_words_that_fit_nothing_still_fill_the_offer(task: str) -> None:
    model, _ = await run(task=task, max_tools=10)
    assert len(model.offered[0]) == 10


async def test_an_unknown_name_is_answered_with_similar_ones_and_a_way_to_find_others() -> None:
    _, [result] = await run(calling(("gmail_send_mesage", {})), task="email Anna")
    assert result.status == "error"
    assert result.text.startswith("There is no tool 'gmail_send_mesage'. Similar ones: gmail_send_message, ")
    assert result.text.endswith("Look for one with find_tools.")
    _, [result] = await run(calling(("q" * 100_000, {})), task="email Anna")
    assert len(result.text) < 300


async def test_names_that_models_cannot_use_lead_back_from_a_part_of_the_catalogue() -> None:
    def named(name: str) -> BaseTool:
        async def answer() -> str:
            return f"this is {name}"

        return StructuredTool.from_function(coroutine=answer, name=name, description=f"Refuel {name}.")

    twins = [named("rocket.fuel"), named("rocket_fuel")]
    model, results = await run(
        calling(("rocket_fuel", {}), ("rocket_fuel_2", {})), task="refuel", tools=[*twins, *TOOLS], max_tools=4
    )
    assert {"rocket_fuel", "rocket_fuel_2"} <= set(model.offered[0])
    assert [result.text for result in results] == ["this is rocket.fuel", "this is rocket_fuel"]


@pytest.mark.parametrize("max_tools", [0, 129])
def test_a_limit_no_endpoint_takes_is_refused(max_tools: int) -> None:
    with pytest.raises(ValueError, match="max_tools must be from 1 to 128"):
        build_agent_loop(tools=TOOLS, model=ScriptedModel(turns=[]), max_tools=max_tools)


@pytest.mark.parametrize("name", ["find_tools", "find.tools", "find tools"])
async def test_a_tool_whose_name_is_or_becomes_one_of_ours_takes_its_place(name: str) -> None:
    async def answer() -> str:
        return "their own"

    theirs = StructuredTool.from_function(coroutine=answer, name=name, description="Find tools.")
    model, [result] = await run(calling(("find_tools", {})), task="find tools", tools=[theirs, *TOOLS], max_tools=10)
    assert result.text == "their own"
    assert model.offered[0].count("find_tools") == 1
