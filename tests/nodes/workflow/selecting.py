"""Run the select node on a scripted endpoint, and what it selects on the demo shop."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn, openai_wire
from toolweave.config.model_price import ModelPrice
from toolweave.config.settings import load_settings
from toolweave.errors import SelectionFailed
from toolweave.nodes.chat_model_source import as_lazy
from toolweave.nodes.chat_models import build_chat_model
from toolweave.nodes.http_tools.api_calls import ApiCalls, api_calls
from toolweave.nodes.http_tools.registry import FixedToolConfigs
from toolweave.nodes.http_tools.specs import HTTPRequestSpec
from toolweave.nodes.workflow.descriptions import as_candidates
from toolweave.nodes.workflow.prompting import WorkflowPrompts
from toolweave.nodes.workflow.select import select_node
from toolweave.nodes.workflow.state import WorkflowUpdate
from toolweave.tool_config import ToolConfig

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def model_at(server: WireServer, timeout_s: str = "20") -> BaseChatModel:
    environ = {"OPENAI_BASE_URL": server.base_url, "TOOLWEAVE_MODEL": "m", "TOOLWEAVE_MODEL_TIMEOUT_S": timeout_s}
    return build_chat_model(load_settings(environ), max_retries=0)


def choosing(**written: Any) -> WireTurn:
    """Call the function with `written` as its arguments."""
    return calling("choose_request", written)


def calling(name: str, written: Any) -> WireTurn:
    text = written if isinstance(written, str) else json.dumps(written)
    return WireTurn(calls=(WireCall(name, text),), piece=50, usage=USAGE)


def saying(text: str) -> WireTurn:
    return WireTurn(text=text, piece=50, usage=USAGE)


async def select(
    model: BaseChatModel, tools: Sequence[ToolConfig], instructions: str, price: ModelPrice | None = None
) -> WorkflowUpdate:
    """Run the node as the graph does after retrieve."""
    node = select_node(FixedToolConfigs(tuple(tools)), WorkflowPrompts(as_lazy(model), price))
    state: Any = {
        "user_instructions": instructions,
        "tool_ids": [tool.tool_id for tool in tools],
        "candidates": as_candidates(tools),
    }
    return await node(state, {})


@dataclass
class Attempt:
    """What came of a script: the update or the failure, and what the endpoint was asked."""

    server: WireServer
    update: WorkflowUpdate | None = None
    failure: SelectionFailed | None = None

    @property
    def spec(self) -> dict[str, Any]:
        assert self.update is not None, self.failure
        found = self.update["http_spec"]
        assert found is not None
        return found

    @property
    def said(self) -> str:
        assert self.failure is not None, "the selection was expected to fail"
        return str(self.failure)

    @property
    def repair(self) -> str:
        """The last message of the second request: what the model is told is wrong."""
        assert len(self.server.requests) == 2, f"{len(self.server.requests)} model calls"
        return str(self.server.requests[1].messages[-1]["content"])


async def attempt(
    tools: Sequence[ToolConfig], *turns: WireTurn, instructions: str = "Do it.", timeout_s: str = "20"
) -> Attempt:
    """Select on an endpoint that gives the scripted answers."""
    with openai_wire(turns) as server:
        made = Attempt(server)
        try:
            made.update = await select(model_at(server, timeout_s), tools, instructions)
        except SelectionFailed as failure:
            made.failure = failure
        return made


def calls_to_loopback() -> ApiCalls:
    return api_calls(load_settings({"TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}))


async def send(calls: ApiCalls, tools: Sequence[ToolConfig], made: Attempt) -> None:
    """Send what was selected, if anything was, as the graph does."""
    if made.update is not None:
        chosen = made.update["selection"]
        assert chosen is not None
        tool = next(tool for tool in tools if tool.tool_id == chosen["tool_id"])
        await calls.call(tool, HTTPRequestSpec.model_validate(made.spec))
