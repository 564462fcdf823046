"""A run's metadata has the tokens of its model calls, written once with its end (S-12)."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import new_thread

LANGGRAPH_JSON = Path(__file__).parent / "usage_app" / "langgraph.json"
ON_POSTGRESQL = True
pytestmark = [
    pytest.mark.requirement("S-12"),
    pytest.mark.databases("sqlite", "postgresql", reason="the application that gets webhooks has one process"),
]
MESSAGES: Any = {"messages": "hello"}


def tokens(calls: int) -> dict[str, int]:
    return {"input_tokens": 7 * calls, "output_tokens": 2 * calls, "total_tokens": 9 * calls}


@pytest.mark.parametrize("modes", [["values"], ["messages-tuple", "values"], ["events"]])
async def test_the_calls_of_subgraphs_threads_and_streams_are_added_up(sdk: LangGraphClient, modes: list[Any]) -> None:
    thread_id = await new_thread(sdk)
    async for _ in sdk.runs.stream(thread_id, "nested", input=MESSAGES, stream_mode=modes):
        pass
    [listed] = await sdk.runs.list(thread_id)
    run = await sdk.runs.get(thread_id, listed["run_id"])
    assert run["metadata"]["usage"] == listed["metadata"]["usage"] == tokens(3)  # type: ignore[index]


async def test_each_run_of_a_thread_counts_its_own(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    runs = [await sdk.runs.create(thread_id, "nested", input=MESSAGES) for _ in range(3)]
    await sdk.runs.join(thread_id, runs[-1]["run_id"])
    ended: list[Any] = [await sdk.runs.get(thread_id, run["run_id"]) for run in runs]
    assert [run["metadata"]["usage"] for run in ended] == [tokens(3)] * 3


async def test_a_failed_run_has_the_tokens_that_it_used(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "fail", input=MESSAGES, raise_error=False)
    [run] = await sdk.runs.list(thread_id)
    assert (run["status"], run["metadata"]["usage"]) == ("error", tokens(1))  # type: ignore[index]


async def test_a_run_without_model_calls_has_no_usage(sdk: LangGraphClient) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "log", input=MESSAGES)
    [run] = await sdk.runs.list(thread_id)
    assert "usage" not in (run["metadata"] or {})


async def test_the_webhook_of_a_run_has_its_usage(sdk: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(sdk)
    await sdk.runs.wait(thread_id, "nested", input=MESSAGES, webhook=f"/hook?k={thread_id}")
    received = (await http.get("/webhooks/first", params={"k": thread_id})).json()
    assert json.loads(received["body"])["metadata"]["usage"] == tokens(3)
