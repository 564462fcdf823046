"""The workflow as an assistant of a real server: streams, threads and the drawing, over the official SDK (W-02)."""

from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import AppProcess
from tests.fixtures.openai_wire import WireServer, WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.graphs.shop_workflow import KEYS, chosen, empty, sent

WORDS = "The chess set costs 49 euros."


def workflow_input(*tool_ids: str, **more: Any) -> Any:
    return {"user_instructions": "What does the chess set cost?", "tool_ids": list(tool_ids), **more}


@pytest.mark.requirement("W-02")
async def test_each_stage_and_the_tokens_of_the_model_are_streamed(
    client: LangGraphClient, wire: WireServer, shop: ShopApi
) -> None:
    wire.turns[:] = [chosen("get_product", {"product_id": 2}), WireTurn(text=WORDS)]
    thread = await client.threads.create()

    stream = client.runs.stream(
        thread["thread_id"],
        "workflow",
        input=workflow_input("get_product", "search_products", format_response=True),
        stream_mode=["values", "updates", "messages-tuple"],
    )
    parts = [part async for part in stream]

    updates = [name for part in parts if part.event == "updates" for name in part.data]
    assert updates == ["retrieve", "select", "execute", "format"]
    chunks = [part.data for part in parts if part.event == "messages"]
    assert "".join(chunk["content"] for chunk, _ in chunks) == WORDS
    assert {metadata["langgraph_node"] for _, metadata in chunks} == {"format"}
    values = [part.data for part in parts if part.event == "values"]
    assert values[-1]["formatted_response"] == WORDS
    assert [each.get("status") for each in values] == [None] * (len(values) - 1) + ["success"]
    assert sent(shop) == ["GET /products/2"]


@pytest.mark.requirement("W-02")
async def test_a_failed_stage_leaves_a_thread_that_takes_the_next_instructions(
    client: LangGraphClient, wire: WireServer, shop: ShopApi, server: AppProcess
) -> None:
    wire.turns[:] = [chosen("always_fails", {})]
    thread = await client.threads.create()

    stream = client.runs.stream(
        thread["thread_id"], "workflow", input=workflow_input("always_fails"), stream_mode=["values", "updates"]
    )
    parts = [part async for part in stream]
    state = await client.threads.get_state(thread["thread_id"])
    [run] = await client.runs.list(thread["thread_id"])
    now = await client.threads.get(thread["thread_id"])
    wire.turns[:] = [chosen("get_product", {"product_id": 2})]
    answer: Any = await client.runs.wait(thread["thread_id"], "workflow", input=workflow_input("get_product"))

    assert [name for part in parts if part.event == "updates" for name in part.data][-1] == "error"
    values: Any = state["values"]
    assert (values["status"], values["error_stage"]) == ("error", "api_execution")
    assert values["raw_response"]["status_code"] == 500
    assert (state["next"], run["status"], now["status"]) == ([], "success", "idle")
    assert (answer["status"], answer["error"], answer["error_stage"]) == ("success", None, None)
    assert sent(shop) == ["GET /broken", "GET /products/2"]
    assert server.logs().count("the workflow failed") == 1


async def test_a_run_is_forked_before_the_stage_that_failed_as_it_was_or_with_other_instructions(
    client: LangGraphClient, wire: WireServer, shop: ShopApi
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    wire.turns[:] = [chosen("get_product", {"product_id": 999})]
    failed: Any = await client.runs.wait(thread_id, "workflow", input=workflow_input("get_product"))
    before = {tuple(state["next"]): state["checkpoint"] for state in await client.threads.get_history(thread_id)}

    again: Any = await client.runs.wait(thread_id, "workflow", input=None, checkpoint=before["execute",])
    other = {"user_instructions": "What does the first product cost?"}
    fork: Any = await client.threads.update_state(thread_id, other, checkpoint=before["select",])
    wire.turns[:] = [chosen("get_product", {"product_id": 1})]
    forked: Any = await client.runs.wait(thread_id, "workflow", input=None, checkpoint=fork["checkpoint"])

    assert [answer["error_stage"] for answer in (failed, again, forked)] == ["api_execution", "api_execution", None]
    assert forked["status"] == "success"
    assert empty(forked, "error", "warning")
    assert sent(shop) == ["GET /products/999", "GET /products/999", "GET /products/1"]
    assert other["user_instructions"] in str(wire.requests[-1].body)


async def test_a_tool_registered_later_can_be_chosen_at_once(
    client: LangGraphClient, wire: WireServer, shop: ShopApi, server: AppProcess
) -> None:
    new = shop.tools()[0].model_copy(update={"tool_id": "look_up", "name": "Look up"})
    wire.turns[:] = [chosen("look_up", {"product_id": 1})]

    before: Any = await client.runs.wait(None, "workflow", input=workflow_input("look_up"))
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        assert (await http.post("/tools", json=new.model_dump(mode="json"))).status_code == 201
    after: Any = await client.runs.wait(None, "workflow", input=workflow_input("look_up"))

    assert before["error"] == "There is no tool registered as look_up."
    assert after["selected_tool"] == "Look up"
    assert sent(shop) == ["GET /products/1"]


@pytest.mark.requirement("W-02")
async def test_the_drawing_shows_the_stages_in_a_line_and_an_edge_from_each_to_the_error_node(
    client: LangGraphClient,
) -> None:
    drawn = await client.assistants.get_graph("workflow")

    stages = ["retrieve", "select", "execute", "format"]
    assert [node["id"] for node in drawn["nodes"]] == ["__start__", *stages, "error", "__end__"]
    assert {(edge["source"], edge["target"]): edge.get("data") for edge in drawn["edges"]} == {
        ("__start__", "retrieve"): None,
        ("retrieve", "select"): None,
        ("select", "execute"): None,
        ("execute", "format"): "format requested",
        ("execute", "__end__"): "done",
        ("format", "__end__"): "done",
        ("error", "__end__"): None,
        **{(stage, "error"): "failed" for stage in stages},
    }


async def test_the_assistants_schemas_describe_its_input_and_output(client: LangGraphClient) -> None:
    [assistant] = await client.assistants.search(graph_id="workflow")
    schemas: Any = await client.assistants.get_schemas(assistant["assistant_id"])
    fields = schemas["input_schema"]["properties"]

    assert assistant["description"]
    assert schemas["input_schema"]["required"] == ["user_instructions"]
    assert set(fields) == {
        *("user_instructions", "tool_ids", "tags", "format_response", "response_format_instructions")
    }
    assert set(schemas["output_schema"]["properties"]) == KEYS
    assert [name for name, field in fields.items() if not field.get("description")] == []
    assert (fields["format_response"]["default"], fields["response_format_instructions"]["default"]) == (False, None)
