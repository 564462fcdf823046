"""Registered tools are offered in the agent loop to runs that name their ids."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.schema import Config

from tests.fixtures.logged import logged
from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn
from tests.fixtures.scripted_model import ScriptedModel, add, calling
from tests.fixtures.shop_api import SHOP_KEY, ShopApi
from tests.graphs.shop_workflow import LOOPBACK
from toolweave.errors import ConfigError, UnknownTools
from toolweave.graphs import build_agent_loop
from toolweave.graphs.plane_tools import MAX_TOOL_IDS, CatalogWithRegisteredTools
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.tool_catalog import FixedToolConfigs, FixedTools
from toolweave.tool_config import ToolConfig

GO: Any = {"messages": [{"role": "user", "content": "go"}]}


@tool
async def get_order(order_id: str) -> str:
    """Get an order, from another place than the shop."""
    return f"{order_id} of a server"


class Changing:
    """A registry whose tools a test changes, and a catalogue that has lost a tool."""

    def __init__(self, configs: Sequence[ToolConfig]) -> None:
        self.configs = {config.tool_id: config for config in configs}

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        return {tool_id: self.configs[tool_id] for tool_id in tool_ids if tool_id in self.configs}

    async def list_all(self) -> Sequence[ToolConfig]:
        return list(self.configs.values())


class Loses:
    async def tools(self) -> Sequence[BaseTool]:
        return [add]

    async def unavailable_tools(self) -> Sequence[BaseTool]:
        return [get_order]


def catalogue(shop: ShopApi, *servers: BaseTool) -> CatalogWithRegisteredTools:
    return CatalogWithRegisteredTools(FixedTools(servers), FixedToolConfigs(tuple(shop.tools())), ApiCalls(LOOPBACK))


async def run(catalog: CatalogWithRegisteredTools, model: ScriptedModel, configurable: Any) -> list[AnyMessage]:
    graph = build_agent_loop(tools=catalog, model=model)
    result = await graph.ainvoke({"messages": [HumanMessage("go")]}, {"configurable": configurable})
    messages: list[AnyMessage] = result["messages"]
    return messages


async def test_a_run_is_offered_the_tools_that_it_names_behind_those_of_servers(shop: ShopApi) -> None:
    model = ScriptedModel(turns=[calling(("get_product", {"product_id": 2}), ("add", {"a": 1, "b": 2})), "done"])
    messages = await run(catalogue(shop, add), model, {"tool_ids": ["search_products", "get_product", "get_product"]})
    assert model.offered == [["add", "search_products", "get_product"]] * 2
    product, total = [message for message in messages if isinstance(message, ToolMessage)]
    assert '"id": 2' in product.text
    assert total.text == "3"
    assert [request.path for request in shop.requests] == ["/products/2"]


@pytest.mark.parametrize("configurable", [{}, {"tool_ids": []}, {"tool_ids": None}])
async def test_a_run_that_names_none_is_offered_none(shop: ShopApi, configurable: Any) -> None:
    model = ScriptedModel(turns=["done"])
    await run(catalogue(shop, add), model, configurable)
    assert model.offered == [["add"]]


async def test_runs_at_the_same_time_have_their_own_tools(shop: ShopApi) -> None:
    catalog = catalogue(shop)
    wanted = [["get_product"], ["search_products", "get_order"], [], ["get_order"]]
    models = [ScriptedModel(turns=["done"]) for _ in wanted]
    pairs = zip(models, wanted, strict=True)
    await asyncio.gather(*(run(catalog, model, {"tool_ids": ids}) for model, ids in pairs))
    assert [model.offered[0] for model in models] == wanted


async def test_unknown_ids_end_the_run_and_are_all_named(shop: ShopApi) -> None:
    model = ScriptedModel(turns=["never"])
    with pytest.raises(UnknownTools, match="no tool registered as nothing, nowhere") as raised:
        await run(catalogue(shop, add), model, {"tool_ids": ["nothing", "get_product", "nowhere"]})
    assert raised.value.tool_ids == ("nothing", "nowhere")
    assert model.prompts == []


@pytest.mark.parametrize(
    "tool_ids", ["get_product", {"get_product": 1}, [None], 5, ["x"] * (MAX_TOOL_IDS + 1)], ids=repr
)
async def test_what_is_no_list_of_ids_ends_the_run(shop: ShopApi, tool_ids: Any) -> None:
    with pytest.raises(ConfigError, match=f"tool_ids .* must be a list of at most {MAX_TOOL_IDS} tool ids"):
        await run(catalogue(shop, add), ScriptedModel(turns=["never"]), {"tool_ids": tool_ids})


async def test_a_name_that_a_server_has_taken_is_left_out_with_one_warning(shop: ShopApi) -> None:
    with logged() as lines:
        model = ScriptedModel(turns=[calling(("get_order", {"order_id": "A-1"})), "done"])
        catalog = catalogue(shop, get_order)
        messages = await run(catalog, model, {"tool_ids": ["get_order", "get_product"]})
        await run(catalog, ScriptedModel(turns=["done"]), {"tool_ids": ["get_order"]})
    assert model.offered[0] == ["get_order", "get_product"]
    assert "A-1 of a server" in [message.text for message in messages]
    assert lines == ["the registered tool get_order is left out: a server's tool has that name"]


async def test_a_change_of_a_tool_holds_from_the_next_turn_on(shop: ShopApi) -> None:
    registry = Changing(shop.tools())
    catalog = CatalogWithRegisteredTools(FixedTools(()), registry, ApiCalls(LOOPBACK))

    def change(_messages: Any) -> Any:
        registry.configs["get_product"] = registry.configs["get_product"].model_copy(update={"description": "Changed."})
        return calling(("get_product", {"product_id": 2}))

    def remove(_messages: Any) -> Any:
        del registry.configs["get_product"]
        return calling(("get_product", {"product_id": 3}))

    with pytest.raises(UnknownTools):
        await run(catalog, ScriptedModel(turns=[change, remove, "never"]), {"tool_ids": ["get_product"]})
    assert [request.path for request in shop.requests] == ["/products/2"]


async def test_lost_tools_of_servers_are_still_known(shop: ShopApi) -> None:
    catalog = CatalogWithRegisteredTools(Loses(), FixedToolConfigs(()), ApiCalls())
    assert [tool.name for tool in await catalog.unavailable_tools()] == ["get_order"]
    assert await CatalogWithRegisteredTools(FixedTools(()), FixedToolConfigs(()), ApiCalls()).unavailable_tools() == ()


@pytest.mark.requirement("W-08")
async def test_an_assistants_configuration_offers_registered_tools_to_its_runs(
    client: LangGraphClient, wire: WireServer, shop: ShopApi
) -> None:
    first = len(wire.requests)
    wire.turns[:] = [
        WireTurn(calls=(WireCall("update_product_price", '{"product_id": 2, "price": 12.5}'),)),
        WireTurn(text="Changed."),
    ]
    assistant = await client.assistants.create(
        "agent_loop", config=Config(configurable={"tool_ids": ["update_product_price", "get_product"]})
    )
    thread = await client.threads.create()
    answer: Any = await client.runs.wait(thread["thread_id"], assistant["assistant_id"], input=GO)
    state = await client.threads.get_state(thread["thread_id"])

    assert answer["messages"][-1]["content"] == "Changed."
    assert {"update_product_price", "get_product"} <= set(wire.requests[first].tool_names)
    assert "place_order" not in wire.requests[first].tool_names
    (request,) = shop.requests
    assert (request.method, request.body, request.headers["x-api-key"]) == ("PUT", {"price": 12.5}, SHOP_KEY)
    assert SHOP_KEY not in repr([answer, state, [each.body for each in wire.requests]])


async def test_a_run_that_names_an_unknown_tool_ends_with_an_error_that_names_it(
    client: LangGraphClient, wire: WireServer, shop: ShopApi
) -> None:
    wire.turns[:] = []
    parts = [
        part
        async for part in client.runs.stream(
            None, "agent_loop", input=GO, config=Config(configurable={"tool_ids": ["get_product", "no_such_tool"]})
        )
    ]
    (error,) = [part.data for part in parts if part.event == "error"]
    assert "no_such_tool" in str(error)
    assert shop.requests == []
