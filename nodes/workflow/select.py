"""Make the select node: the model chooses a tool and arguments, and the request is made from these by us (W-05).

What the model writes of a request is compared with ours and never sent. A choice that cannot be sent gets one repair
turn.
"""

from collections.abc import Mapping, Sequence

from langchain_core.runnables import RunnableConfig

from toolweave.errors import SelectionFailed, StageFailed, UnknownTools
from toolweave.nodes.http_tools.registry import ToolRegistry
from toolweave.nodes.http_tools.request_building import WrongArguments, build_request
from toolweave.nodes.http_tools.request_comparison import arguments_of, differences
from toolweave.nodes.http_tools.specs import HTTPRequestSpec
from toolweave.nodes.model_usage import ModelUsage
from toolweave.nodes.workflow.model_answer import Choice, UnreadableChoice, read_choice
from toolweave.nodes.workflow.prompting import Rejected, WorkflowPrompts
from toolweave.nodes.workflow.state import ModelNode, Selection, WorkflowState, WorkflowUpdate
from toolweave.tool_config import ToolConfig

TURNS = 2
"""The first one and the one that repairs it."""
LONGEST_PROBLEMS = 2_000


def select_node(registry: ToolRegistry, prompts: WorkflowPrompts) -> ModelNode:
    """Return the node; it writes selection, selected_tool, http_spec (without credentials) and model_usage.

    It raises SelectionFailed when the model fails, declines, or twice chooses what cannot be sent, and UnknownTools
    when a candidate is no longer registered.
    """

    async def select(state: WorkflowState, config: RunnableConfig) -> WorkflowUpdate:
        tools = await _configurations(registry, [candidate["tool_id"] for candidate in state["candidates"]])
        usage: list[ModelUsage] = []
        try:
            chosen, request = await _chosen(prompts, state, tools, usage, config)
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


async def _configurations(registry: ToolRegistry, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
    found = await registry.find(tool_ids)
    if missing := tuple(tool_id for tool_id in tool_ids if tool_id not in found):
        raise UnknownTools(missing)
    return {tool_id: found[tool_id] for tool_id in tool_ids}


async def _chosen(
    prompts: WorkflowPrompts,
    state: WorkflowState,
    tools: Mapping[str, ToolConfig],
    usage: list[ModelUsage],
    config: RunnableConfig,
) -> tuple[Selection, HTTPRequestSpec]:
    """Ask, and ask once more if the choice cannot be sent; `usage` gets what each turn has used."""
    rejected: Rejected | None = None
    for _ in range(TURNS):
        try:
            selected = await prompts.select(
                instructions=state["user_instructions"],
                candidates=state["candidates"],
                tools=list(tools.values()),
                config=config,
                rejected=rejected,
            )
        except StageFailed as error:
            usage += error.model_usage
            raise SelectionFailed(str(error)) from error
        usage += selected.usage
        try:
            return _checked(read_choice(selected.answer, list(tools)), tools)
        except (UnreadableChoice, WrongArguments) as error:
            rejected = Rejected(selected.answer, error.problems)
    problems = "; ".join(rejected.problems)[:LONGEST_PROBLEMS] if rejected else ""
    raise SelectionFailed(f"The model chose no request that can be sent, not at the second try either: {problems}")


def _checked(choice: Choice, tools: Mapping[str, ToolConfig]) -> tuple[Selection, HTTPRequestSpec]:
    """Make the request of a choice.

    Raises:
        SelectionFailed: the model declines.
        WrongArguments: no request can be made of the choice, or the model's own request differs from it.
    """
    if choice.tool_id is None:
        raise SelectionFailed(f"The model chose no tool: {choice.reason}")
    tool = tools[choice.tool_id]
    try:
        arguments = _arguments(tool, choice)
        request = build_request(tool, arguments)
    except WrongArguments:
        if choice.reason and not choice.arguments and choice.http_spec is None:
            # Asked to fill everything in, some models name the tool that lacks a value, too.
            raise SelectionFailed(f"The model chose no request: {choice.reason}") from None
        raise
    if choice.http_spec is not None and (found := differences(request, choice.http_spec)):
        raise WrongArguments(found)
    return Selection(tool_id=tool.tool_id, arguments=dict(arguments)), request


def _arguments(tool: ToolConfig, choice: Choice) -> Mapping[str, object]:
    if choice.arguments is not None:
        return choice.arguments
    if choice.http_spec is None:
        raise WrongArguments(["arguments are missing."])
    return arguments_of(tool, choice.http_spec)
