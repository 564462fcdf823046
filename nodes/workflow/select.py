"""Make the select node: the model chooses a tool and arguments, and the request is made from these by us (W-05).

What the model writes of a request is compared with ours and never sent. A choice that cannot be sent gets one repair
turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from toolweave.errors import SelectionFailed, StageFailed
from toolweave.nodes.http_tools.comparison import differences, infer_arguments
from toolweave.nodes.http_tools.requests import HTTPRequestSpec, WrongArguments, build_request
from toolweave.nodes.model_turn import ModelUsage, json_object, json_objects
from toolweave.nodes.tool_catalog import ToolRegistry, registered_tools
from toolweave.nodes.workflow.prompts import WorkflowPrompts
from toolweave.nodes.workflow.state import ChosenRequest, WorkflowNode, WorkflowState, WorkflowUpdate
from toolweave.tool_config import ToolConfig

CHOICE_KEYS = frozenset({"tool_id", "arguments", "http_spec", "reason"})
MAX_DEPTH = 3
MAX_REASON_CHARS = 1_000
_NO_TOOL_IDS = frozenset({"", "none", "null"})


@dataclass(frozen=True, slots=True)
class Choice:
    """What a model chose, unchecked; `tool_id` is None where it declines for a `reason`.

    `arguments` is None where it wrote a request only.
    """

    tool_id: str | None
    arguments: Any = None
    http_spec: HTTPRequestSpec | None = None
    reason: str = ""


def parse_choice(answer: AIMessage, tool_ids: Sequence[str]) -> Choice:
    """Read the first thing in an answer that is a choice.

    Raises:
        WrongArguments: there is none, or it is incomplete.
    """
    problems: list[str] = []
    for name, value in json_objects(answer):
        try:
            return _parse_object(name, value, tool_ids)
        except WrongArguments as error:
            problems += error.problems
    for call in answer.invalid_tool_calls[:1]:
        problems.append(f"The arguments of the call {call['name'] or ''} are not one whole JSON object.")
    raise WrongArguments(problems or ["The answer is no call of the function and no JSON object."])


def _parse_object(name: str, written: dict[str, Any], tool_ids: Sequence[str]) -> Choice:
    for called, value in _nested_objects(name, written, MAX_DEPTH):
        if called in tool_ids and not {"tool_id", "http_spec"} & value.keys():
            # The tool itself was called, with its own arguments.
            return Choice(called, value["arguments"] if value.keys() == {"arguments"} else value)
        if _is_choice(value):
            return _build_choice(value, tool_ids)
        if {"method", "url"} <= value.keys():
            return _build_choice({"http_spec": value}, tool_ids)
    raise WrongArguments(["The answer has no tool_id."])


def _is_choice(value: dict[str, Any]) -> bool:
    """Tell a choice from a call that was written as text, and from any other object."""
    return not CHOICE_KEYS.isdisjoint(value) and ("tool_id" in value or not {"name", "arguments"} <= value.keys())


def _nested_objects(name: str, value: dict[str, Any], depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give an object and those in it, each with its key, or with the name of the call that it is the arguments of."""
    yield name, value
    for key, item in value.items() if depth and not _is_choice(value) else ():
        if (inner := json_object(item)) is not None:
            yield from _nested_objects(str(value.get("name", key)), inner, depth - 1)


def _build_choice(value: dict[str, Any], tool_ids: Sequence[str]) -> Choice:
    tool_id, reason = _text(value.get("tool_id")), _text(value.get("reason"))[:MAX_REASON_CHARS]
    arguments, http_spec = value.get("arguments"), value.get("http_spec")
    if arguments is None and http_spec is None:
        beside = {key: item for key, item in value.items() if key not in CHOICE_KEYS}
        if reason and not beside:
            return Choice(None, reason=reason)
        # Written beside tool_id instead of under arguments; a reason could then be either.
        arguments = beside if beside and not reason else None
    if tool_id.lower() in _NO_TOOL_IDS:
        if len(tool_ids) == 1 and (arguments or http_spec):
            tool_id = tool_ids[0]
        elif reason:
            return Choice(None, reason=reason)
    if tool_id not in tool_ids:
        raise WrongArguments([f"tool_id must be one of {', '.join(tool_ids)}, not {tool_id[:100]!r}."])
    read = json_object(arguments)
    return Choice(tool_id, arguments if read is None else read, _parse_spec(http_spec), reason)


def _parse_spec(value: Any) -> HTTPRequestSpec | None:
    try:
        return None if value is None else HTTPRequestSpec.model_validate(json_object(value) or value)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, ['http_spec', *one['loc']]))}: {one['msg']}" for one in error.errors()[:5]]
        raise WrongArguments([problem[:300] for problem in problems]) from None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


MAX_ATTEMPTS = 2
"""The first one and the one that repairs it."""
MAX_PROBLEMS_CHARS = 2_000


def select_node(registry: ToolRegistry, prompts: WorkflowPrompts) -> WorkflowNode:
    """Return the node; it writes selection, selected_tool, http_spec (without credentials) and model_usage.

    It raises SelectionFailed when the model fails, declines, or twice chooses what cannot be sent, and UnknownTools
    when a candidate is no longer registered.
    """

    async def select(state: WorkflowState, config: RunnableConfig) -> WorkflowUpdate:
        tools = await registered_tools(registry, [candidate["tool_id"] for candidate in state["candidates"]])
        usage: list[ModelUsage] = []
        try:
            chosen, request = await _choose_request(prompts, state, tools, usage, config)
        except StageFailed as error:
            error.model_usage = [*usage]
            raise
        return {
            "selection": chosen,
            "selected_tool": tools[chosen["tool_id"]].name,
            "http_spec": request.model_dump(mode="json"),
            "model_usage": usage,
        }

    return select


async def _choose_request(
    prompts: WorkflowPrompts,
    state: WorkflowState,
    tools: Mapping[str, ToolConfig],
    usage: list[ModelUsage],
    config: RunnableConfig,
) -> tuple[ChosenRequest, HTTPRequestSpec]:
    """Ask, and ask once more if the choice cannot be sent; `usage` gets what each turn has used."""
    rejected: tuple[AIMessage, Sequence[str]] | None = None
    for _ in range(MAX_ATTEMPTS):
        try:
            answer, used = await prompts.select(state, list(tools.values()), config, rejected)
        except StageFailed as error:
            usage += error.model_usage
            raise SelectionFailed(str(error)) from error
        usage.append(used)
        try:
            return _check_choice(parse_choice(answer, list(tools)), tools)
        except WrongArguments as error:
            rejected = answer, error.problems
    problems = "; ".join(rejected[1])[:MAX_PROBLEMS_CHARS] if rejected else ""
    raise SelectionFailed(f"The model chose no request that can be sent, not at the second try either: {problems}")


def _check_choice(choice: Choice, tools: Mapping[str, ToolConfig]) -> tuple[ChosenRequest, HTTPRequestSpec]:
    """Make the request of a choice.

    Raises:
        SelectionFailed: the model declines.
        WrongArguments: no request can be made of the choice, or the model's own request differs from it.
    """
    if choice.tool_id is None:
        raise SelectionFailed(f"The model chose no tool: {choice.reason}")
    tool, spec = tools[choice.tool_id], choice.http_spec
    try:
        arguments = infer_arguments(tool, spec) if choice.arguments is None and spec else choice.arguments
        request = build_request(tool, arguments)
    except WrongArguments:
        if choice.reason and not choice.arguments and spec is None:
            # Asked to fill everything in, some models name the tool that lacks a value, too.
            raise SelectionFailed(f"The model chose no request: {choice.reason}") from None
        raise
    if spec is not None and (found := differences(request, spec)):
        raise WrongArguments(found)
    return ChosenRequest(tool_id=tool.tool_id, arguments=dict(arguments)), request
