"""Define tool calls as the agent's nodes pass them on, and prepare messages so that no endpoint refuses them.

The state keeps what was really said. Endpoints ask for more: every tool call is followed by its result, no result
lacks its call, and arguments are JSON. A cancelled run or an edited thread breaks that, so it is mended in the
copy that the model gets.
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
    """A call as the model wants it; `args` is its raw text where that is not a JSON object."""

    name: str
    args: dict[str, Any] | str
    id: str
    type: Literal["tool_call"]


def prompt_messages(system_prompt: str | None, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the system prompt and the dialogue with each tool call followed by its result."""
    results = {found.tool_call_id: found for found in messages if isinstance(found, ToolMessage)}
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
    """List the calls that a message asks for, valid ones first."""
    if not isinstance(message, AIMessage):
        return []
    valid = [_requested_call(call["name"], call["args"], call["id"]) for call in message.tool_calls]
    invalid = [_requested_call(call["name"], call["args"] or "", call["id"]) for call in message.invalid_tool_calls]
    return [*valid, *invalid]


def with_unique_call_ids(answer: AIMessage, earlier: Sequence[AnyMessage]) -> AIMessage:
    """Give calls a fresh id where it is missing or was used before on this thread.

    Some local endpoints send no ids or count from zero in each answer; results and idempotency keys (T-03) need
    them to be unique.
    """
    used = {call["id"] for message in earlier for call in requested_calls(message)}
    calls = list(_with_unique_ids(answer.tool_calls, used))
    return answer.model_copy(
        update={"tool_calls": calls, "invalid_tool_calls": list(_with_unique_ids(answer.invalid_tool_calls, used))}
    )


def with_executed_calls(message: AnyMessage, executed: Sequence[RequestedCall]) -> list[AnyMessage]:
    """Return the message with its calls as they really run, to take its place; nothing if that is what it says."""
    by_id = {call["id"]: call for call in executed}
    if not isinstance(message, AIMessage):
        return []
    calls = [{**call, **_name_and_args(by_id.get(call["id"] or ""))} for call in message.tool_calls]
    if calls == message.tool_calls:
        return []
    kept = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    # Blocks that repeat a call are made anew of tool_calls by those endpoints that want them sent back.
    content = message.content
    if not isinstance(content, str):
        content = [b for b in content if isinstance(b, str) or (b.get("call_id") or b.get("id")) not in by_id]
    return [message.model_copy(update={"tool_calls": calls, "additional_kwargs": kept, "content": content})]


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
    """Answer a call in its tool's stead."""
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)


QUESTIONS_KEY = "toolweave/questions"
"""Where the artifact of a tool's message holds the questions that a person must answer before there is a result."""


class ServerQuestion(TypedDict):
    """What a tool's server wants to know, and the JSON schema of the flat object that answers it."""

    message: str
    requestedSchema: dict[str, Any]


class AnsweredQuestion(ServerQuestion):
    """A question with its answer; `content` fits the schema, and is None for a question declined."""

    action: Literal["accept", "decline"]
    content: dict[str, Any] | None


class ToolTask(RequestedCall, total=False):
    """A call as the tool node gets it; only nodes that asked a person add to what the model requested.

    `approved_tool`: a person let this very call of this tool run. `answers`: what a person said to its server's
    questions so far.
    """

    approved_tool: str
    answers: list[AnsweredQuestion]


class WaitingCall(TypedDict):
    """A call whose server asks something: it is issued anew when a person has answered."""

    call: ToolTask
    questions: list[ServerQuestion]


@runtime_checkable
class ElicitingTool(Protocol):
    """A tool whose server may ask a person in the middle of a call, as MCP's elicitation has it."""

    def with_answers(self, answers: list[AnsweredQuestion]) -> Self:
        """Return the tool for one call with these answers; other questions become its message's artifact."""
        ...


def tool_task(call: RequestedCall, *, approved_tool: str | None = None) -> ToolTask:
    """Make the task of a call as it was requested."""
    task: ToolTask = {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
    return task | {"approved_tool": approved_tool} if approved_tool else task


def as_tool_call(task: ToolTask, name: str) -> ToolCall:
    """Return the call that a task is about, without what persons have said to it, under the tool's own name."""
    return {"name": name, "args": args_dict(task["args"]), "id": task["id"], "type": "tool_call"}


def args_dict(arguments: dict[str, Any] | str) -> dict[str, Any]:
    """Return the arguments of a call; none for those that are no JSON object."""
    return arguments if isinstance(arguments, dict) else {}


def requires_approval(tool: BaseTool) -> bool:
    """Say whether a person is asked before the tool runs; any tool may say so in its metadata."""
    return (tool.metadata or {}).get("requires_approval") is True
