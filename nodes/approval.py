"""Ask a person before tools run that need it: once per turn, for all of its calls, before any of them (S-07)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command, Send

from toolweave.nodes.agent_state import AgentState, RoutingNode
from toolweave.nodes.dialogue import RequestedCall, requested_calls, with_calls
from toolweave.nodes.human_interrupt import HumanInterrupt, HumanResponse, Unusable, ask, is_unattended
from toolweave.nodes.openai_format import find_tool
from toolweave.nodes.tool_catalog import ToolCatalog
from toolweave.nodes.tool_task import ToolTask, as_object, requires_approval, task_of

SHOWN_ARGUMENTS = 1_000
SHORTEST_PART = 40
MOST_PARTS = 100
NOBODY_TO_ASK = "Not executed: this tool needs a person's approval, and nobody can be asked in this run."

Verdict = ToolTask | ToolMessage
"""What becomes of a call: it runs, perhaps edited, or this message is its result."""


def calls_to_approve(message: AnyMessage, tools: Sequence[BaseTool]) -> dict[str, str]:
    """Map the ids of the calls that need a person's approval to their tools; calls that cannot run need none."""
    if not any(requires_approval(tool) for tool in tools):
        return {}
    found = [(call, find_tool(tools, call["name"])) for call in requested_calls(message)]
    return {
        call["id"]: tool.name
        for call, tool in found
        if tool and requires_approval(tool) and isinstance(call["args"], dict)
    }


def approve_node(catalog: ToolCatalog) -> RoutingNode:
    """Return the node: one interrupt for all calls of the turn that need approval, then a task for each call to run."""

    async def approve(state: AgentState, config: RunnableConfig) -> Command[Any]:
        asked = state["messages"][-1]
        meant = state.get("to_approve", {})
        gated = [call for call in requested_calls(asked) if call["id"] in meant]
        if is_unattended(config):
            verdicts: list[Verdict] = [_result(call, NOBODY_TO_ASK) for call in gated]
        else:
            tools = await catalog.tools()
            verdicts = ask([_request(call) for call in gated], lambda given: _verdicts(gated, given, meant, tools))
        decided = iter(verdicts)
        return _carried_out(
            asked, [next(decided) if call in gated else task_of(call) for call in requested_calls(asked)]
        )

    return approve


def _carried_out(asked: AnyMessage, outcome: Sequence[Verdict]) -> Command[Any]:
    """Send each call that may run to the tool node; the message that asked for it then says what really runs."""
    tasks = [each for each in outcome if not isinstance(each, ToolMessage)]
    messages: list[AnyMessage] = [each for each in outcome if isinstance(each, ToolMessage)]
    goto: list[Send] | str = [Send("tools", [task]) for task in tasks] or "call_model"
    return Command(update={"messages": [*with_calls(asked, tasks), *messages], "to_approve": {}}, goto=goto)


def _request(call: RequestedCall) -> HumanInterrupt:
    return {
        "action_request": {"action": call["name"], "args": as_object(call["args"])},
        "config": {"allow_ignore": True, "allow_respond": True, "allow_edit": True, "allow_accept": True},
        "description": f"The agent wants to call {call['name']} with {_shown(as_object(call['args']))}",
    }


def _shown(arguments: Mapping[str, Any]) -> str:
    """Write arguments for a person to read; of long ones each a part, so that none hides behind another."""
    whole = _json(arguments)
    if len(whole) <= SHOWN_ARGUMENTS:
        return whole
    most = max(SHORTEST_PART, SHOWN_ARGUMENTS // len(arguments))
    parts = [f"{_cut(_json(name), most)}: {_cut(_json(value), most)}" for name, value in arguments.items()]
    more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
    return f"{{{', '.join(parts[:MOST_PARTS])}{more}}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _verdicts(
    gated: Sequence[RequestedCall],
    answers: Sequence[HumanResponse],
    meant: Mapping[str, str],
    tools: Sequence[BaseTool],
) -> list[Verdict]:
    return [_verdict(call, answer, meant[call["id"]], tools) for call, answer in zip(gated, answers, strict=True)]


def _verdict(call: RequestedCall, answer: HumanResponse, meant: str, tools: Sequence[BaseTool]) -> Verdict:
    match answer.kind:
        case "approve":
            return task_of(call, approved_tool=meant)
        case "edit":
            name, arguments = _edited(call, answer.args)
            tool = meant if name == call["name"] else _known(name, tools)
            return task_of({**call, "name": name, "args": arguments}, approved_tool=tool)
        case "respond":
            return _result(call, _text(answer.args), status="success")
        case "reject":
            reason = _text(answer.args) if answer.args else ""
            return _result(call, f"The user rejected this call; it was not executed. {reason}".rstrip())


def _edited(call: RequestedCall, args: Any) -> tuple[str, dict[str, Any]]:
    """Read an edit: an action with its arguments, or the arguments alone."""
    name, arguments = call["name"], args
    if isinstance(args, dict) and args.keys() == {"action", "args"} and isinstance(args["action"], str):
        name, arguments = args["action"], args["args"]
    if not isinstance(arguments, dict):
        raise Unusable(f"the edited arguments of {call['name']} are not an object.")
    return name, arguments


def _known(name: str, tools: Sequence[BaseTool]) -> str:
    tool = find_tool(tools, name)
    if tool is None:
        raise Unusable(f"there is no tool {name[:100]!r}.")
    return tool.name


def _text(args: Any) -> str:
    if not isinstance(args, str) or not args.strip():
        raise Unusable("the args of respond, and of reject if there are any, are a text.")
    return args


def _result(call: RequestedCall, text: str, *, status: Literal["success", "error"] = "error") -> ToolMessage:
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)
