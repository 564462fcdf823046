"""The newer protocol through Python when a run interrupts: RemoteGraph's version 3, and the synchronous client."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core._api import suppress_langchain_beta_warning
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import LangGraphClient

from tests.fixtures.app_server import AppServer

LANGGRAPH_JSON = Path(__file__).parent.parent / "app" / "langgraph.json"
BOUND_S = 60


async def test_a_remote_graph_is_resumed_as_soon_as_it_interrupts(sdk: LangGraphClient) -> None:
    graph = RemoteGraph("family", client=sdk)
    for _ in range(10):
        config: Any = {"configurable": {"thread_id": str(uuid4())}}
        with suppress_langchain_beta_warning():
            first = await graph.astream_events({"n": 1, "ask": True}, config, version="v3")
            second = await graph.astream_events(Command(resume="yes"), config, version="v3")
        async with asyncio.timeout(BOUND_S):
            async with first:
                async for _values in first.values:
                    pass
                assert await first.interrupted()
            async with second:
                assert await second.output() == {"n": 3, "ask": True, "answer": "yes"}


async def test_the_synchronous_client_streams_and_resumes(app_server: AppServer) -> None:
    def talk_and_answer() -> Any:
        hello = {"messages": [{"role": "user", "content": "hello"}]}
        with get_sync_client(url=app_server.url, api_key=None) as client:
            with client.threads.stream(assistant_id="talk") as thread:
                thread.run.start(input=hello)
                texts = [str(message.text) for message in thread.messages]
            with client.threads.stream(assistant_id="family") as thread:
                thread.run.start(input={"n": 1, "ask": True})
                for _ in thread.values:
                    pass
                thread.run.respond("yes")
                return texts, thread.output

    texts, output = await asyncio.wait_for(asyncio.to_thread(talk_and_answer), BOUND_S)
    assert texts == ["you said: hello"]
    assert output["answer"] == "yes"
