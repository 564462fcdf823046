"""State and nodes of the agent loop (D-10, A-02).

`accept_input` or `check_tools` starts a run and `call_model` runs a model turn. `iteration_cap`, `limit_error` and
`summarize` end a run at its iteration limit. The loop sends one task per tool call to `tools`: the calls of a turn run
concurrently, and a completed call is not repeated when another one is resumed (S-07). `human_in_the_loop` has the nodes
that interrupt the run for a person.
"""

import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import date
from typing import Annotated, Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest, ToolInvocationError
from langgraph.types import Command
from loguru import logger
from typing_extensions import TypedDict

from toolweave.errors import InvalidRequest, IterationLimitError, ToolError
from toolweave.nodes import tool_calls
from toolweave.nodes.chat_models import LazyChatModel
from toolweave.nodes.large_results import ResultStoringTool, tool_with_result_store
from toolweave.nodes.model_turn import ModelRunnable, answer_status, local_today, model_turn
from toolweave.nodes.tool_catalog import OpenAITool, SelectedTools, ToolCatalog, find_tool, unavailable_tools
from toolweave.nodes.tool_selection import ToolSelector, unknown_tool_text

AgentStatus = Literal[
    "running", "done", "client_tools", "iteration_limit", "length", "content_filter", "tools_missing", "no_tools"
]
"""Status of a run. `length` and `content_filter` are the finish reasons of an incomplete model answer.

`client_tools`: the last model answer has calls of client tools without results; the next input brings the results.
"""


class AgentInput(TypedDict):
    """Input of a run: the new messages."""

    messages: Annotated[list[AnyMessage], add_messages]


class AgentConfig(TypedDict, total=False):
    """What a run may have in its `configurable`; servers show it as the graph's context schema.

    `client_tools`: tools in the OpenAI format that the client executes: their calls end the run. `unattended`: no
    person can answer an interrupt, because the run is stateless or unobserved.
    """

    client_tools: list[OpenAITool]
    unattended: bool


def client_tools(config: RunnableConfig) -> dict[str, OpenAITool]:
    """Return the client's tools of this run, by name."""
    tools: list[OpenAITool] = (config.get("configurable") or {}).get(CLIENT_TOOLS_KEY) or []
    return {tool["function"]["name"]: tool for tool in tools}


def server_calls(message: AnyMessage, config: RunnableConfig) -> list[tool_calls.RequestedCall]:
    """Return the calls that a message requests, without those of client tools."""
    names = client_tools(config)
    return [call for call in tool_calls.requested_calls(message) if call["name"] not in names]


def has_open_client_calls(state: "AgentState", config: RunnableConfig) -> bool:
    """Return whether calls of client tools of this run's last model answer have no result."""
    names = client_tools(config)
    if not names or not state.get("iterations"):
        return False
    results = {message.tool_call_id for message in state["messages"] if isinstance(message, ToolMessage)}
    calls = tool_calls.requested_calls(last_answer(state["messages"]))
    return any(call["name"] in names and call["id"] not in results for call in calls)


def last_answer(messages: Sequence[AnyMessage]) -> AnyMessage:
    """Return the last message of the model, behind which results of client tools may already stand."""
    return next((message for message in reversed(messages) if isinstance(message, AIMessage)), messages[-1])


class AgentOutput(AgentInput):
    """Output of a run: all messages, the number of model calls since the last input, and the final status."""

    iterations: int
    status: AgentStatus


def merge_waiting_calls(
    waiting: list[tool_calls.WaitingCall], more: list[tool_calls.WaitingCall]
) -> list[tool_calls.WaitingCall]:
    """Add the waiting calls that tasks of a turn write; an empty list clears them."""
    return [*waiting, *more] if more else []


class AgentState(AgentOutput):
    """The output, the pending requests to a person, and the steps left below the caller's recursion limit.

    `to_approve` maps ids of the last message's calls that need approval to the names of their tools. `waiting_calls`
    are calls whose servers sent questions. Both are absent on threads that never needed a person.
    """

    to_approve: dict[str, str]
    waiting_calls: Annotated[list[tool_calls.WaitingCall] | None, merge_waiting_calls]
    remaining_steps: RemainingSteps


AgentUpdate = dict[str, Any]
"""State update of a node; absent keys stay unchanged."""
AgentNode = Callable[..., AgentUpdate | Awaitable[AgentUpdate]]
"""A node of the loop; nodes that call the model also take the config, through which LangGraph streams tokens."""
RoutingNode = Callable[..., Awaitable[Command[Any]]]
"""A node that returns a Command with the tasks to run next."""
SystemPrompt = str | Callable[[], str] | None
"""A text, a function that returns the text for each model call, or None."""
AGENT_PROMPT = """\
You are an assistant with tools. Use a tool whenever it can find, check or change what the user asks about, and \
choose it by its description. Call independent tools in the same turn. If a call fails, read its error: correct \
the arguments and try again, or tell the user in plain words what could not be done. Never say that something was \
done unless a tool's result in this conversation shows it. When you have what you need, answer without calling \
tools."""
TODO_PROMPT = """\
You manage the user's todo list with the given tools. Today is {today}.
- Add, list, change, find and delete todos only through the tools; never answer from memory.
- To change or delete a todo that the user names by its words, search for it first and use its id. If more than one \
fits, ask which one.
- Dates go into due_date as ISO dates.
- Say that something was done only if the tool's result in this conversation says so. Confirm it with the title, or \
list the found todos one per line with priority and due date.
- If a tool fails, tell the user so in plain words and what they can do.
- For small talk, answer without tools."""
SUMMARY_PROMPT = """\
The limit of model calls is reached and no tool can be called any more. Answer the user now from what the \
conversation holds, and say what is still missing."""


def todo_prompt(today: Callable[[], date] = local_today) -> str:
    """Return the todo agent's prompt; the model needs the date to resolve words such as "tomorrow"."""
    return TODO_PROMPT.format(today=today().strftime("%A, %Y-%m-%d"))


UNDECIDED_TEXT = "Not executed: the user sent a new message instead of a decision about the calls of this turn."
UNANSWERED_TEXT = "Not finished: the user sent a new message instead of an answer to the tool server's question."


def accept_input(state: AgentState) -> AgentUpdate:
    """Start a turn: reset the count of model calls, and add results for calls of an interrupt that the user ignored.

    Raises:
        InvalidRequest: the thread has no message for the model to answer.
    """
    if not state.get("messages"):
        raise InvalidRequest('There is nothing to answer: the input needs {"messages": [...]} with at least one.')
    update: AgentUpdate = {"iterations": 0, "status": "running"}
    if state.get("to_approve") or state.get("waiting_calls"):
        update |= {"messages": _unresolved_call_results(state), "to_approve": {}, "waiting_calls": []}
    return update


def _unresolved_call_results(state: AgentState) -> list[AnyMessage]:
    """Return results for the calls of a turn whose interrupt the user ignored by sending new input."""
    waiting = {each["call"]["id"] for each in state.get("waiting_calls") or []}
    interrupted = {*waiting, *state.get("to_approve", ())}
    turns = [tool_calls.requested_calls(message) for message in state["messages"]]
    calls: list[tool_calls.RequestedCall] = next(
        (turn for turn in reversed(turns) if any(call["id"] in interrupted for call in turn)), []
    )
    answered = {message.tool_call_id for message in state["messages"] if isinstance(message, ToolMessage)}
    return [
        tool_calls.result_message(call, UNANSWERED_TEXT if call["id"] in waiting else UNDECIDED_TEXT)
        for call in calls
        if call["id"] not in answered
    ]


def call_model_node(
    model: LazyChatModel, tool_selector: ToolSelector, system_prompt: SystemPrompt, *, min_remaining_steps: int
) -> AgentNode:
    """Return the node that runs one model turn; it does nothing while calls wait for a person's answers.

    It reads the catalogue at every turn, because tools come and go with their servers (A-02), and binds the relevant
    tools of a large catalogue (D-2). If fewer than `min_remaining_steps` steps are left, requested calls cannot be
    executed any more: the status becomes "iteration_limit" (D-10).
    """

    async def call_model(state: AgentState, config: RunnableConfig) -> AgentUpdate:
        if state.get("waiting_calls"):
            # Calls of this turn wait for a person's answers: the edge from this node leads to answer_questions.
            return {}
        if has_open_client_calls(state, config):
            # The server's calls of this turn are done: the run ends, and the client executes its own.
            return {"status": "client_tools"}
        messages = state["messages"]
        tools = await tool_selector.catalog.tools()
        chat_model, selected = await model.get(), await tool_selector.select(tools, messages)
        own = client_tools(config)
        selected = [*(tool for tool in selected if tool["function"]["name"] not in own), *own.values()]
        runnable: ModelRunnable = chat_model.bind_tools(selected) if selected else chat_model
        prompt = system_prompt() if callable(system_prompt) else system_prompt
        answer = await model_turn(runnable, tool_calls.prompt_messages(prompt, messages), config)
        answer = tool_calls.with_unique_call_ids(answer, messages)
        status: AgentStatus = "running" if state["remaining_steps"] >= min_remaining_steps else "iteration_limit"
        if not server_calls(answer, config):
            status = "client_tools" if tool_calls.requested_calls(answer) else answer_status(answer)
        update: AgentUpdate = {"messages": [answer], "iterations": state.get("iterations", 0) + 1, "status": status}
        to_approve = calls_to_approve(server_calls(answer, config), tools)
        return {**update, "to_approve": to_approve} if to_approve else update

    return call_model


OnIterationLimit = Literal["end", "error", "summarize"]


def iteration_cap_node(on_limit: OnIterationLimit) -> AgentNode:
    """Return the node that answers each pending call with an error; for "end" it adds a message with the reason."""

    def iteration_cap(state: AgentState) -> AgentUpdate:
        limit = state["iterations"]
        refused: list[AnyMessage] = [
            tool_calls.result_message(call, f"Not executed: the limit of {limit} model calls is reached.")
            for call in tool_calls.requested_calls(state["messages"][-1])
        ]
        note: list[AnyMessage] = [AIMessage(_iteration_limit_text(limit))] if on_limit == "end" else []
        return {"messages": [*refused, *note], "status": "iteration_limit"}

    return iteration_cap


def limit_error(state: AgentState) -> AgentUpdate:
    """Fail the run.

    Raises:
        IterationLimitError: always, with the number of model calls made.
    """
    raise IterationLimitError(state["iterations"])


def summarize_node(model: LazyChatModel) -> AgentNode:
    """Return the node that calls the model once more, without tools, for a summary."""

    async def summarize(state: AgentState, config: RunnableConfig) -> AgentUpdate:
        answer = await model_turn(
            await model.get(), tool_calls.prompt_messages(SUMMARY_PROMPT, state["messages"]), config
        )
        text = answer.text or _iteration_limit_text(state["iterations"])
        summary = answer.model_copy(update={"content": text, "tool_calls": [], "invalid_tool_calls": []})
        return {"messages": [summary], "iterations": state["iterations"] + 1}

    return summarize


def _iteration_limit_text(limit: int) -> str:
    return (
        f"I stopped at the iteration limit: {limit} model calls without a final answer. "
        "Ask for less at once, or raise the limit."
    )


NO_DATABASE_TEXT = "Unable to access todo database. Please try again later."
NO_TOOLS_TEXT = f"No MCP tools available. {NO_DATABASE_TEXT}"


def check_tools_node(required: SelectedTools) -> AgentNode:
    """Return the node that starts a run and sets the status if none of the required tools can be called."""

    async def check_tools(state: AgentState) -> AgentUpdate:
        update = accept_input(state)
        available = await required.catalog.tools()
        if required.select(available):
            return update
        return {**update, "status": "tools_missing" if available else "no_tools"}

    return check_tools


def tools_missing(state: AgentState) -> AgentUpdate:
    """Answer with a fixed text and log the problem for the operator."""
    text = NO_TOOLS_TEXT if state["status"] == "no_tools" else NO_DATABASE_TEXT
    logger.critical("the todo tools are not available; the request got a fixed answer: {}", text)
    return {"messages": [AIMessage(text)]}


def calls_to_approve(calls: Sequence[tool_calls.RequestedCall], tools: Sequence[BaseTool]) -> dict[str, str]:
    """Map the ids of calls that need a person's approval to their tools' names; invalid calls need no approval."""
    return {
        call["id"]: tool.name
        for call, tool in [(call, find_tool(tools, call["name"])) for call in calls]
        if tool and tool_calls.requires_approval(tool) and isinstance(call["args"], dict)
    }


CLIENT_TOOLS_KEY = "client_tools"
UNATTENDED_KEY = "unattended"
"""Key in a run's `configurable`: the run is stateless or unobserved, so no person can answer an interrupt."""


def is_unattended(config: RunnableConfig) -> bool:
    """Return whether no person can answer an interrupt of the run."""
    return bool((config.get("configurable") or {}).get(UNATTENDED_KEY))


MAX_ANSWERS_PER_CALL = 20


def tool_with_answers(tool: BaseTool, task: tool_calls.ToolTask, config: RunnableConfig) -> BaseTool:
    """Return the tool with the answers to its questions so far; in an unattended run a question fails the call."""
    if isinstance(tool, tool_calls.ElicitingTool) and not is_unattended(config):
        return tool.with_answers(task.get("answers", []))
    return tool


def waiting_call_update(
    task: tool_calls.ToolTask, result: ToolMessage | Command[Any]
) -> Command[Any] | ToolMessage | None:
    """Return the update that stores a call with the questions of its server, or None if there are no questions.

    After MAX_ANSWERS_PER_CALL answers the call fails instead.
    """
    artifact = result.artifact if isinstance(result, ToolMessage) else None
    questions = artifact.get(tool_calls.QUESTIONS_KEY) if isinstance(artifact, dict) else None
    if not questions:
        return None
    if len(task.get("answers", [])) >= MAX_ANSWERS_PER_CALL:
        text = f"Stopped: the tool's server asked another question after {MAX_ANSWERS_PER_CALL} answers of the user."
        return tool_calls.result_message(task, text)
    waiting: tool_calls.WaitingCall = {"call": task, "questions": questions}
    return Command(update={"waiting_calls": [waiting]})


MAX_ERROR_CHARS = 2_000
NOT_APPROVED_TEXT = "Not executed: this tool needs a person's approval. Call it again, and the person will be asked."
UNAVAILABLE_TEXT = "Not executed: the server of this tool is not available right now. Please try again later."
ToolCallResult = ToolMessage | Command[Any]
ExecuteToolCall = Callable[[ToolCallRequest], Awaitable[ToolCallResult]]


def tools_node(catalog: ToolCatalog, internal_tools: Sequence[BaseTool] = ()) -> ToolNode:
    """Return the node; its input is a list with one call, sent as `Send("tools", [call])` (A-02, A-08).

    It executes `internal_tools` as well as the catalogue's tools.
    """

    async def execute_call(request: ToolCallRequest, execute: ExecuteToolCall) -> ToolCallResult:
        call = cast("tool_calls.ToolTask", request.tool_call)
        arguments = call["args"]
        if isinstance(arguments, str):
            return tool_calls.result_message(
                call, f"The arguments are not a JSON object: {arguments[:MAX_ERROR_CHARS]}"
            )
        tools = await catalog.tools()
        available = find_tool([*tools, *internal_tools], call["name"])
        # The model requested it, and perhaps a person approved it, before its server became unavailable.
        tool = available or find_tool(await unavailable_tools(catalog), call["name"])
        if tool is None:
            return tool_calls.result_message(call, unknown_tool_text(call["name"], tools))
        if tool_calls.requires_approval(tool) and call.get("approved_tool") != tool.name:
            return tool_calls.result_message(call, NOT_APPROVED_TEXT if available else UNAVAILABLE_TEXT)
        with logger.contextualize(tool=tool.name, tool_call_id=call["id"]):
            prepared = tool_with_answers(tool, call, request.runtime.config)
            prepared = tool_with_result_store(prepared, call["id"], request.runtime)
            facts: dict[str, Any] = {}
            prepared = prepared.with_facts(facts) if isinstance(prepared, tool_calls.MeasuredTool) else prepared
            plain_call = tool_calls.as_tool_call(call, tool.name)
            _is_host_tool.set(not is_mcp_tool(tool) and all(tool is not own for own in internal_tools))
            result = await execute(request.override(tool=prepared, tool_call=plain_call))
            if facts and isinstance(result, ToolMessage):
                result.response_metadata[tool_calls.CALL_FACTS_KEY] = facts
            return waiting_call_update(call, result) or _join_text_blocks(result)

    return ToolNode([], handle_tool_errors=explain_tool_failure, awrap_tool_call=execute_call)


_is_host_tool: ContextVar[bool] = ContextVar("is_host_tool", default=False)
"""Whether the current call is of a tool that the embedding program defines: not of an MCP server, an API or ours."""


def is_mcp_tool(tool: BaseTool) -> bool:
    """Return whether the tool calls an MCP server or an API: ours, or one from langchain-mcp-adapters."""
    function = getattr(tool, "coroutine", None)
    return isinstance(tool, ResultStoringTool) or getattr(function, "__module__", "") == "langchain_mcp_adapters.tools"


def explain_tool_failure(error: Exception) -> str:
    """Return an error text for the model.

    The text of an unexpected exception goes to the log, and to the model only from a tool of the embedding program.
    """
    if isinstance(error, ToolInvocationError):
        problems = error.filtered_errors or error.source.errors()
        listed = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
        return f"The arguments do not fit: {listed}. Correct them and call the tool again."[:MAX_ERROR_CHARS]
    if isinstance(error, ToolException | ToolError):
        return str(error)[:MAX_ERROR_CHARS] or "The tool failed and gave no reason."
    if isinstance(error, TimeoutError) and not (_is_host_tool.get() and str(error)):
        return "The tool did not answer in time and was stopped. Please try again later."
    # Formatted here: the default of loguru adds the values of local variables.
    logger.error("a tool failed with an internal error\n{}", "".join(traceback.format_exception(error)).rstrip())
    if _is_host_tool.get():
        return f"The tool failed: {type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
    return "The tool failed because of an internal error. Please try again later."


def _join_text_blocks(result: ToolCallResult) -> ToolCallResult:
    """Join the text blocks of a result: not every endpoint accepts MCP's list of blocks in a tool message."""
    if not isinstance(result, ToolMessage) or isinstance(result.content, str):
        return result
    texts = [block["text"] for block in result.content if isinstance(block, dict) and block.get("type") == "text"]
    if len(texts) < len(result.content):
        return result
    return result.model_copy(update={"content": "\n".join(texts)})
