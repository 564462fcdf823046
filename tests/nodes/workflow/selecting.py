"""Run the select node on a scripted endpoint, and send the selected request to the demo shop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from tests.fixtures.openai_wire import WireRequest, WireServer, WireTurn
from tests.fixtures.shop_api import ShopApi
from tests.nodes.model_at import calling
from toolweave.config.settings import load_settings
from toolweave.errors import SelectionFailed
from toolweave.nodes.chat_models import as_lazy_chat_model
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.requests import HTTPRequestSpec
from toolweave.nodes.tool_catalog import FixedToolConfigs
from toolweave.nodes.workflow.prompts import WorkflowModel
from toolweave.nodes.workflow.select import select_node
from toolweave.nodes.workflow.stages import format_node
from toolweave.nodes.workflow.state import WorkflowUpdate
from toolweave.nodes.workflow.tool_descriptions import tool_candidates
from toolweave.tool_config import ToolConfig

RIGHT: dict[str, Any] = {"tool_id": "get_order", "arguments": {"order_id": "A-1001"}}


def choosing(**written: Any) -> WireTurn:
    """Call the function with `written` as its arguments."""
    return calling(written, "choose_request")


async def select(model: BaseChatModel, tools: Sequence[ToolConfig], instructions: str) -> WorkflowUpdate:
    """Run the node as the graph does after retrieve."""
    node = select_node(FixedToolConfigs(tuple(tools)), WorkflowModel(as_lazy_chat_model(model)))
    state: Any = {
        "user_instructions": instructions,
        "tool_ids": [tool.tool_id for tool in tools],
        "candidates": tool_candidates(tools),
    }
    update: WorkflowUpdate = await node(state, {})
    return update


def after_call(response: dict[str, Any], output: Any = None, format_instructions: str | None = None) -> Any:
    """Make the state that the graph has before the response is formatted."""
    return {
        "user_instructions": "Where is my order?",
        "raw_response": response,
        "output": output,
        "wanted_format": {"instructions": format_instructions},
        "model_usage": [],
    }


@dataclass
class Attempt:
    """The update or the failure of a selection, and the requests to the endpoint."""

    requests: list[WireRequest]
    update: WorkflowUpdate | None = None
    failure: SelectionFailed | None = None

    @property
    def spec(self) -> dict[str, Any]:
        assert self.update is not None, self.failure
        found: dict[str, Any] = self.update["http_spec"]
        return found

    @property
    def error(self) -> str:
        assert self.failure is not None, "the selection was expected to fail"
        return str(self.failure)

    @property
    def repair(self) -> str:
        """The last message of the second request, which lists the problems."""
        assert len(self.requests) == 2, f"{len(self.requests)} model calls"
        return str(self.requests[1].messages[-1]["content"])


@dataclass
class Endpoint:
    """A scripted endpoint and a model there, for one test after the other."""

    server: WireServer
    model: BaseChatModel

    def script(self, *turns: WireTurn) -> None:
        self.server.turns[:] = turns
        self.server.requests.clear()

    async def attempt(self, tools: Sequence[ToolConfig], *turns: WireTurn, instructions: str = "Do it.") -> Attempt:
        """Select while the endpoint gives the scripted answers."""
        self.script(*turns)
        made = Attempt(self.server.requests)
        try:
            made.update = await select(self.model, tools, instructions)
        except SelectionFailed as failure:
            made.failure = failure
        made.requests = list(self.server.requests)
        return made

    async def format(self, turn: WireTurn, response: dict[str, Any], **more: Any) -> WorkflowUpdate:
        """Format an API's answer while the endpoint gives the scripted one."""
        self.script(turn)
        node = format_node(WorkflowModel(as_lazy_chat_model(self.model)))
        update: WorkflowUpdate = await node(after_call(response, **more), {})
        return update


def brief(value: object) -> str:
    """Name a parameter of a test shortly."""
    if isinstance(value, WireTurn):
        called = value.calls[0].arguments if value.calls else value.text
        return f"{value.status} {value.finish} {called}"[:40]
    return str(value)[:40]


def some(shop: ShopApi, *tool_ids: str) -> list[ToolConfig]:
    return [tool for tool in shop.tools() if tool.tool_id in tool_ids]


def calls_to_loopback() -> ApiCalls:
    return ApiCalls(load_settings({"TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}).outbound_allow)


async def send(calls: ApiCalls, tools: Sequence[ToolConfig], made: Attempt) -> None:
    """Send the selected request, if there is one, as the graph does."""
    if made.update is not None:
        chosen = made.update["selection"]
        assert chosen is not None
        tool = next(tool for tool in tools if tool.tool_id == chosen["tool_id"])
        await calls.call(tool, HTTPRequestSpec.model_validate(made.spec))
