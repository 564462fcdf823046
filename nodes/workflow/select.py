"""Build the select node: the model chooses a tool and arguments, and our code builds the request from them (W-05).

A request that the model writes is only compared with ours, never sent. An invalid choice gets one repair attempt.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from toolweave.errors import SelectionFailed, StageFailed
from toolweave.nodes.http_tools import requests
from toolweave.nodes.model_turn import ModelUsage, json_object, json_objects
from toolweave.nodes.tool_catalog import ToolRegistry, registered_tools
from toolweave.nodes.workflow.prompts import WorkflowModel
from toolweave.nodes.workflow.state import ChosenRequest, WorkflowNode, WorkflowState, WorkflowUpdate
from toolweave.tool_config import ToolConfig

CHOICE_KEYS = frozenset({"tool_id", "arguments", "http_spec", "reason"})
MAX_DEPTH = 3
MAX_REASON_CHARS = 1_000
_NO_TOOL_IDS = frozenset({"", "none", "null"})


@dataclass(frozen=True, slots=True)
class Choice:
    """The model's unchecked choice; `tool_id` is None if it declines for a `reason`.

    `arguments` is None if it wrote only a request.
    """

    tool_id: str | None
    arguments: Any = None
    http_spec: requests.HTTPRequestSpec | None = None
    reason: str = ""


def parse_choice(answer: AIMessage, tool_ids: Sequence[str]) -> Choice:
    """Parse the first choice in an answer.

    Raises:
        WrongArguments: there is none, or it is incomplete.
    """
    problems: list[str] = []
    for name, value in json_objects(answer):
        try:
            return _parse_object(name, value, tool_ids)
        except requests.WrongArguments as error:
            problems += error.problems
    for call in answer.invalid_tool_calls[:1]:
        problems.append(f"The arguments of the call {call['name'] or ''} are not one whole JSON object.")
    raise requests.WrongArguments(problems or ["The answer is neither a call of the function nor a JSON object."])


def _parse_object(name: str, written: dict[str, Any], tool_ids: Sequence[str]) -> Choice:
    for called, value in _nested_objects(name, written, MAX_DEPTH):
        if called in tool_ids and not {"tool_id", "http_spec"} & value.keys():
            # The model called the tool itself, with its arguments.
            return Choice(called, value["arguments"] if value.keys() == {"arguments"} else value)
        if _is_choice(value):
            return _build_choice(value, tool_ids)
        if {"method", "url"} <= value.keys():
            return _build_choice({"http_spec": value}, tool_ids)
    raise requests.WrongArguments(["The answer has no tool_id."])


def _is_choice(value: dict[str, Any]) -> bool:
    """Return whether an object is a choice, not a call that was written as text or another object."""
    return not CHOICE_KEYS.isdisjoint(value) and ("tool_id" in value or not {"name", "arguments"} <= value.keys())


def _nested_objects(name: str, value: dict[str, Any], depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield an object and those inside it, each with its key, or with the name of the call whose arguments it is."""
    yield name, value
    for key, item in value.items() if depth and not _is_choice(value) else ():
        if (inner := json_object(item)) is not None:
            yield from _nested_objects(str(value.get("name", key)), inner, depth - 1)


def _build_choice(value: dict[str, Any], tool_ids: Sequence[str]) -> Choice:
    tool_id, reason = _text(value.get("tool_id")), _text(value.get("reason"))[:MAX_REASON_CHARS]
    arguments, http_spec = value.get("arguments"), value.get("http_spec")
    if arguments is None and http_spec is None:
        extra = {key: item for key, item in value.items() if key not in CHOICE_KEYS}
        if reason and not extra:
            return Choice(None, reason=reason)
        # The model wrote them beside tool_id, not under arguments; `reason` could then be an argument.
        arguments = extra if extra and not reason else None
    if tool_id.lower() in _NO_TOOL_IDS:
        if len(tool_ids) == 1 and (arguments or http_spec):
            tool_id = tool_ids[0]
        elif reason:
            return Choice(None, reason=reason)
    if tool_id not in tool_ids:
        raise requests.WrongArguments([f"tool_id must be one of {', '.join(tool_ids)}, not {tool_id[:100]!r}."])
    parsed = json_object(arguments)
    return Choice(tool_id, arguments if parsed is None else parsed, _parse_spec(http_spec), reason)


def _parse_spec(value: Any) -> requests.HTTPRequestSpec | None:
    try:
        return None if value is None else requests.HTTPRequestSpec.model_validate(json_object(value) or value)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, ['http_spec', *one['loc']]))}: {one['msg']}" for one in error.errors()[:5]]
        raise requests.WrongArguments([problem[:300] for problem in problems]) from None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


MAX_ATTEMPTS = 2
"""The first attempt and one repair."""
MAX_PROBLEMS_CHARS = 2_000


def select_node(registry: ToolRegistry, prompts: WorkflowModel) -> WorkflowNode:
    """Return the node that writes selection, selected_tool, http_spec (without credentials) and model_usage.

    It raises SelectionFailed when the model fails, declines, or makes an invalid choice twice, and UnknownTools when a
    candidate is no longer registered.
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
    prompts: WorkflowModel,
    state: WorkflowState,
    tools: Mapping[str, ToolConfig],
    usage: list[ModelUsage],
    config: RunnableConfig,
) -> tuple[ChosenRequest, requests.HTTPRequestSpec]:
    """Call the model, once more if its choice is invalid; append each attempt's usage to `usage`."""
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
        except requests.WrongArguments as error:
            rejected = answer, error.problems
    problems = "; ".join(rejected[1])[:MAX_PROBLEMS_CHARS] if rejected else ""
    raise SelectionFailed(f"The model did not choose a valid request after two attempts: {problems}")


def _check_choice(choice: Choice, tools: Mapping[str, ToolConfig]) -> tuple[ChosenRequest, requests.HTTPRequestSpec]:
    """Build the request of a choice.

    Raises:
        SelectionFailed: the model declined.
        WrongArguments: the arguments make no valid request, or the model's own request differs from it.
    """
    if choice.tool_id is None:
        raise SelectionFailed(f"The model chose no tool: {choice.reason}")
    tool, spec = tools[choice.tool_id], choice.http_spec
    try:
        arguments = requests.infer_arguments(tool, spec) if choice.arguments is None and spec else choice.arguments
        request = requests.build_request(tool, arguments)
    except requests.WrongArguments:
        if choice.reason and not choice.arguments and spec is None:
            # Some models fill in every field, so they name the tool that lacks a value, too.
            raise SelectionFailed(f"The model chose no request: {choice.reason}") from None
        raise
    if spec is not None and (found := requests.request_differences(request, spec)):
        raise requests.WrongArguments(found)
    return ChosenRequest(tool_id=tool.tool_id, arguments=dict(arguments)), request
