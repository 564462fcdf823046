"""Read a list of messages as turns: what the user said, and what the tools answered to it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from toolweave.nodes.offline_model.tools.tool_results import ToolResult, read_result, text_of

CallKey = tuple[str, str]

NO_ANSWER = "the call was not answered"


def call_key(name: str, arguments: Mapping[str, Any]) -> CallKey:
    """Give what makes two calls the same call."""
    return name, json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class Turn:
    """One user message with the results of the calls made for it, and the last words of the answer."""

    text: str
    results: Mapping[CallKey, ToolResult] = field(default_factory=dict)
    answer: str = ""
    answered: bool = False


def read_turns(messages: Sequence[BaseMessage], *, most: int) -> list[Turn]:
    """List the last turns, oldest first; the last one is the one to answer."""
    starts = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)][-most:]
    if not starts:
        return [_turn("", messages)]
    return [
        _turn(text_of(messages[start].content), messages[start + 1 : end])
        for start, end in zip(starts, [*starts[1:], len(messages)], strict=True)
    ]


def _turn(text: str, replies: Sequence[BaseMessage]) -> Turn:
    answers = {reply.tool_call_id: reply for reply in replies if isinstance(reply, ToolMessage)}
    results: dict[CallKey, ToolResult] = {}
    answer = ""
    for reply in replies:
        if not isinstance(reply, AIMessage):
            continue
        answer = text_of(reply.content)
        for call in reply.tool_calls:
            arguments = call["args"]
            message = answers.get(call["id"] or "")
            results[call_key(call["name"], arguments)] = (
                read_result(message, call["name"], arguments)
                if message
                else ToolResult(call["name"], arguments, ok=False, problem=NO_ANSWER)
            )
    return Turn(text, results, answer, answered=bool(replies) and isinstance(replies[-1], AIMessage))
