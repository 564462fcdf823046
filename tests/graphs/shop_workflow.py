"""Run workflows on the demo shop, with a scripted model."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from loguru import logger

from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn, openai_wire
from tests.fixtures.shop_api import ShopApi
from toolweave.config.outbound_allow import allowed_targets
from toolweave.config.settings import load_settings
from toolweave.graphs.workflow import WorkflowGraph, build_workflow
from toolweave.nodes.chat_models import build_chat_model
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.workflow.state import WorkflowOutput

LOOPBACK = allowed_targets("127.0.0.1")
KEYS = set(WorkflowOutput.__annotations__)
THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


def chosen(tool_id: str, arguments: dict[str, Any], **more: Any) -> WireTurn:
    """Script a choice as the model writes it."""
    written = json.dumps({"tool_id": tool_id, "arguments": arguments, **more})
    return WireTurn(calls=(WireCall("choose_request", written),), piece=100)


@dataclass(frozen=True)
class WorkflowCaller:
    """A workflow, and the endpoint of its model."""

    graph: WorkflowGraph
    wire: WireServer

    async def __call__(self, instructions: Any, *tool_ids: str, **more: Any) -> dict[str, Any]:
        """Run the workflow, without ids on all tools; its answer always has all its keys."""
        ids = {"tool_ids": list(tool_ids)} if tool_ids else {}
        wanted: Any = {"user_instructions": instructions, **ids, **more}
        answer: dict[str, Any] = await self.graph.ainvoke(wanted, THREAD)
        assert answer.keys() == KEYS
        return answer

    @property
    def prompts(self) -> list[str]:
        """Return the bodies of the requests to the model."""
        return [json.dumps(request.body, ensure_ascii=False) for request in self.wire.requests]


@contextmanager
def shop_workflow(
    shop: ShopApi, *turns: WireTurn, repeat: bool = False, timeout_s: float = 20, **options: Any
) -> Iterator[WorkflowCaller]:
    """Build a workflow with the shop's tools and the scripted turns; `options` are those of `build_workflow`."""
    with openai_wire(turns, repeat=repeat) as wire:
        settings = load_settings(
            {"OPENAI_BASE_URL": wire.base_url, "TOOLWEAVE_MODEL": "m", "TOOLWEAVE_MODEL_TIMEOUT_S": str(timeout_s)}
        )
        wanted = {"tools": shop.tools(), "api_calls": ApiCalls(LOOPBACK), **options}
        yield WorkflowCaller(build_workflow(model=lambda: build_chat_model(settings, max_retries=0), **wanted), wire)


@contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """Collect what is logged as errors: the message and the fields of each record, with all that loguru would show."""
    records: list[dict[str, Any]] = []

    def keep(message: Any) -> None:
        records.append({**message.record["extra"], "message": message.record["message"], "written": str(message)})

    sink = logger.add(keep, level="ERROR", format="{message} {extra}", backtrace=True, diagnose=True)
    try:
        yield records
    finally:
        logger.remove(sink)


def empty(answer: dict[str, Any], *names: str) -> bool:
    """Return whether these keys are None."""
    return all(answer[name] is None for name in names)


def sent(shop: ShopApi) -> Sequence[str]:
    """List the requests that the shop got, in order."""
    return [f"{request.method} {request.raw_path}" for request in shop.requests]
