"""Tool calls as the agent's nodes exchange them, and the messages that a model gets for them.

The state stores messages unchanged. Model endpoints require that every tool call is followed by its result, that no
result lacks its call, and that arguments are JSON. After a cancelled run or an edited thread this may not hold, so
`prompt_messages` repairs the copy that the model gets.
"""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, Self, runtime_checkable

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.messages.tool import tool_call as valid_call
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

UNKNOWN_OUTCOME = "This call was interrupted; whether it took effect is unknown. Check before you repeat it."


class RequestedCall(TypedDict):
    """A call that the model requests; `args` is the raw text if that is not a JSON object."""

    name: str
    args: dict[str, Any] | str
    id: str
    type: Literal["tool_call"]


def prompt_messages(system_prompt: str | None, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the system prompt and the messages, with each tool call followed by its result."""
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    prompt: list[AnyMessage] = [SystemMessage(system_prompt)] if system_prompt else []
    for message in messages:
        if isinstance(message, AIMessage):
            prompt.append(_with_json_arguments(message))
            prompt.extend(
                results.get(call["id"], result_message(call, UNKNOWN_OUTCOME)) for call in requested_calls(message)
            )
        elif not isinstance(message, ToolMessage):
            prompt.append(message)
    return prompt


def requested_calls(message: AnyMessage) -> list[RequestedCall]:
    """Return the calls that a message requests, valid ones first."""
    if not isinstance(message, AIMessage):
        return []
    valid = [_requested_call(call["name"], call["args"], call["id"]) for call in message.tool_calls]
    invalid = [_requested_call(call["name"], call["args"] or "", call["id"]) for call in message.invalid_tool_calls]
    return [*valid, *invalid]


def with_unique_call_ids(answer: AIMessage, earlier: Sequence[AnyMessage]) -> AIMessage:
    """Return the answer with new ids for calls whose id is missing or was used before on this thread.

    Some local endpoints send no ids or count from zero in each answer. Results and idempotency keys (T-03) need unique
    ids.
    """
    used = {call["id"] for message in earlier for call in requested_calls(message)}
    calls = list(_with_unique_ids(answer.tool_calls, used))
    return answer.model_copy(
        update={"tool_calls": calls, "invalid_tool_calls": list(_with_unique_ids(answer.invalid_tool_calls, used))}
    )


def with_executed_calls(message: AnyMessage, executed: Sequence[RequestedCall]) -> list[AnyMessage]:
    """Return a replacement of the message that shows the calls as executed; an empty list if they are unchanged."""
    by_id = {call["id"]: call for call in executed}
    if not isinstance(message, AIMessage):
        return []
    calls = [{**call, **_name_and_args(by_id.get(call["id"] or ""))} for call in message.tool_calls]
    if calls == message.tool_calls:
        return []
    other_kwargs = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    # Content blocks that repeat a call are rebuilt from tool_calls for endpoints that need them.
    content = message.content
    if not isinstance(content, str):
        content = [b for b in content if isinstance(b, str) or (b.get("call_id") or b.get("id")) not in by_id]
    return [message.model_copy(update={"tool_calls": calls, "additional_kwargs": other_kwargs, "content": content})]


def _name_and_args(call: RequestedCall | None) -> dict[str, Any]:
    return {"name": call["name"], "args": call["args"]} if call else {}


def _requested_call(name: str | None, args: dict[str, Any] | str, call_id: str | None) -> RequestedCall:
    return {"name": name or "", "args": args, "id": call_id or "", "type": "tool_call"}


def _with_unique_ids(calls: Sequence[Any], used: set[str]) -> Iterator[Any]:
    for call in calls:
        call_id = call["id"] if call["id"] and call["id"] not in used else f"call_{uuid.uuid4().hex}"
        used.add(call_id)
        yield {**call, "id": call_id}


def _with_json_arguments(message: AIMessage) -> AIMessage:
    if not message.invalid_tool_calls:
        return message
    mended = [valid_call(name=call["name"] or "", args={}, id=call["id"]) for call in message.invalid_tool_calls]
    return message.model_copy(update={"tool_calls": [*message.tool_calls, *mended], "invalid_tool_calls": []})


def result_message(call: RequestedCall, text: str, status: Literal["success", "error"] = "error") -> ToolMessage:
    """Build the result of a call that its tool did not execute or finish."""
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)


QUESTIONS_KEY = "toolweave/questions"
"""Key in a tool message's artifact: the questions that a person must answer before the call has a result."""


class ServerQuestion(TypedDict):
    """An MCP elicitation: the question of a tool's server, and the JSON schema of the flat object that answers it."""

    message: str
    requestedSchema: dict[str, Any]


class AnsweredQuestion(ServerQuestion):
    """A question with its answer; `content` matches the schema, and is None if the person declined."""

    action: Literal["accept", "decline"]
    content: dict[str, Any] | None


class ToolTask(RequestedCall, total=False):
    """A call as the tool node gets it: the model's request, and what a person added.

    `approved_tool`: the tool for which a person approved this call. `answers`: the answers to the questions of its
    server so far.
    """

    approved_tool: str
    answers: list[AnsweredQuestion]


class WaitingCall(TypedDict):
    """A call whose server sent questions; it is issued again when a person has answered them."""

    call: ToolTask
    questions: list[ServerQuestion]


@runtime_checkable
class ElicitingTool(Protocol):
    """A tool whose server may send questions to a person during a call (MCP elicitation)."""

    def with_answers(self, answers: list[AnsweredQuestion]) -> Self:
        """Return the tool for one call with these answers; further questions are returned in the message's artifact."""
        ...


CALL_FACTS_KEY = "toolweave_call"
"""Key in a tool message's `response_metadata`: server, duration, attempts, and the `app` of a tool that has one."""


@runtime_checkable
class MeasuredTool(Protocol):
    """A tool that reports how a call went."""

    def with_facts(self, facts: dict[str, Any]) -> Self:
        """Return the tool for one call; it writes the server, the duration and the attempts to `facts`."""
        ...


def tool_task(call: RequestedCall, *, approved_tool: str | None = None) -> ToolTask:
    """Build the task that executes a requested call."""
    task: ToolTask = {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
    return task | {"approved_tool": approved_tool} if approved_tool else task


def as_tool_call(task: ToolTask, name: str) -> ToolCall:
    """Return a task's call for LangChain: under the tool's own name, without approvals and answers."""
    return {"name": name, "args": args_dict(task["args"]), "id": task["id"], "type": "tool_call"}


def args_dict(arguments: dict[str, Any] | str) -> dict[str, Any]:
    """Return the arguments of a call, or an empty dict if they are not a JSON object."""
    return arguments if isinstance(arguments, dict) else {}


def requires_approval(tool: BaseTool) -> bool:
    """Return whether a person must approve the tool's calls, which any tool may set in its metadata."""
    return (tool.metadata or {}).get("requires_approval") is True
