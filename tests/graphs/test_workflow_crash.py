"""How a workflow continues whose process is killed between a stage's failure and its error handler."""

import asyncio
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.fixtures.openai_wire import WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.graphs.shop_workflow import THREAD, chosen, empty, logged, sent, shop_workflow

# The handler logs first: this process is killed by the log line, before the handler has changed the state.
SCRIPT = """
import asyncio, os, signal, sys
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from loguru import logger
from tests.fixtures.shop_tools import shop_tools
from tests.graphs.shop_workflow import LOOPBACK, THREAD
from toolweave.config.settings import load_settings
from toolweave.graphs import build_workflow
from toolweave.nodes.chat_models import build_chat_model
from toolweave.nodes.http_tools.api_calls import ApiCalls

file, shop_url, model_url, *tool_ids = sys.argv[1:]

async def main():
    settings = load_settings({"OPENAI_BASE_URL": model_url, "TOOLWEAVE_MODEL": "m"})
    async with AsyncSqliteSaver.from_conn_string(file) as saver:
        graph = build_workflow(
            tools=shop_tools(shop_url), model=lambda: build_chat_model(settings, max_retries=0),
            api_calls=ApiCalls(LOOPBACK), checkpointer=saver,
        )
        wanted = {"user_instructions": "Ask", "tool_ids": tool_ids, "format_response": True}
        await graph.ainvoke(wanted, THREAD, durability="sync")

logger.enable("toolweave")
logger.add(lambda _: os.kill(os.getpid(), signal.SIGKILL), level="ERROR")
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.requirement("W-02")
@pytest.mark.parametrize(
    ("tool_ids", "turns", "stage", "text"),
    [
        (["no-one's", "get_order"], [], "tool_retrieval", "The tools could not be looked up."),
        (["always_fails"], [chosen("always_fails", {})], "api_execution", "The request could not be carried out."),
    ],
)
async def test_the_failure_is_reported_by_the_process_that_continues(
    shop: ShopApi, tmp_path: Path, tool_ids: list[str], turns: list[WireTurn], stage: str, text: str
) -> None:
    file = str(tmp_path / "checkpoints.db")
    async with AsyncSqliteSaver.from_conn_string(file) as saver:
        with logged() as records, shop_workflow(shop, *turns, checkpointer=saver) as ask:
            command = [sys.executable, "-c", SCRIPT, file, shop.url, ask.wire.base_url, *tool_ids]
            ended = await asyncio.to_thread(
                partial(subprocess.run, command, capture_output=True, text=True, encoding="utf-8", timeout=250)
            )
            assert ended.returncode == -signal.SIGKILL, ended.stderr
            requests = sent(shop)
            answer = await ask.graph.ainvoke(None, THREAD)

    assert (answer["status"], answer["error_stage"]) == ("error", stage)
    assert text in answer["error"]
    assert empty(answer, "formatted_response", "warning", "output")
    assert sent(shop) == requests, "nothing is sent a second time"
    assert [record["stage"] for record in records] == [stage]
