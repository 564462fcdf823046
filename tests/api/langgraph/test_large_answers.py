"""R-03: large responses are complete, and other requests are answered while they are encoded."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, model_serializer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph_client import StreamingAsgiTransport

LANGGRAPH_JSON = Path(__file__).parent / "app" / "langgraph.json"
RECORDS = [{"id": number, "name": f"é {number}", "tags": ["a", None], "price": number / 7} for number in range(2_000)]

pytestmark = pytest.mark.requirement("R-03")


async def thread_with(http: httpx.AsyncClient, log: list[Any], times: int = 1) -> str:
    metadata = {"graph_id": "steps", "mark": "large"}
    thread = str((await http.post("/threads", json={"metadata": metadata})).json()["thread_id"])
    for _ in range(times):
        body = {"values": {"log": log}, "as_node": "double"}
        (await http.post(f"/threads/{thread}/state", json=body)).raise_for_status()
    return thread


async def test_large_states_and_searches_are_whole_and_have_their_length(http: httpx.AsyncClient) -> None:
    threads = [await thread_with(http, RECORDS, times=2) for _ in range(3)]
    state = await http.get(f"/threads/{threads[0]}/state")
    assert state.json()["values"]["log"] == RECORDS * 2
    history = await http.get(f"/threads/{threads[0]}/history", params={"limit": 10})
    assert [len(state["values"]["log"]) for state in history.json()] == [4_000, 2_000]
    found = await http.post("/threads/search", json={"metadata": {"mark": "large"}})
    assert [row["thread_id"] for row in found.json()] == threads[::-1]
    assert all(row["values"] == {"log": RECORDS * 2} for row in found.json())
    for answer in (state, history, found):
        assert answer.headers["content-length"] == str(len(answer.content))
        assert answer.headers["content-type"] == "application/json"
    assert found.headers["x-pagination-total"] == "3"


async def test_a_search_extracts_from_and_selects_the_stored_values(http: httpx.AsyncClient) -> None:
    thread = await thread_with(http, RECORDS[:2])
    for extracted, path in (({"last": 1}, "values.log[-1].id"), ({"mark": "large"}, "metadata.mark")):
        body = {"ids": [thread], "select": ["values"], "extract": dict.fromkeys(extracted, path)}
        (found,) = (await http.post("/threads/search", json=body)).json()
        assert found == {"values": {"log": RECORDS[:2]}, "extracted": extracted}


async def test_a_large_item_of_the_store_is_found_whole(http: httpx.AsyncClient) -> None:
    for number in range(3):
        item = {"namespace": ["large"], "key": str(number), "value": {"records": RECORDS}}
        assert (await http.put("/store/items", json=item)).status_code == 204
    found = (await http.post("/store/items/search", json={"namespace_prefix": ["large"]})).json()["items"]
    assert [item["value"] for item in found] == [{"records": RECORDS}] * 3


async def test_other_requests_are_answered_while_a_large_answer_is_encoded() -> None:
    events: list[str] = []

    class Row(BaseModel):
        number: int

        @model_serializer
        def encoded(self) -> dict[str, int]:
            events.append("row")
            return {"number": self.number}

    async def rows(_request: Request) -> Response:
        return json_answer([Row(number=number) for number in range(10_000)])

    async def small(_request: Request) -> Response:
        return json_answer({"ok": True})

    app = Starlette(routes=[Route("/rows", rows), Route("/small", small)])
    async with httpx.AsyncClient(transport=StreamingAsgiTransport(app), base_url="http://127.0.0.1") as http:
        large = asyncio.create_task(http.get("/rows"))
        while not large.done():
            assert (await http.get("/small")).json() == {"ok": True}
            events.append("small")
        assert (await large).json() == [{"number": number} for number in range(10_000)]
    first, last = events.index("row"), len(events) - 1 - events[::-1].index("row")
    assert "small" in events[first:last]
