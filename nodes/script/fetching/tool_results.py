"""List what the tool calls of a dialogue brought: whole texts, without what was put in for the model (A-04, D-7)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AnyMessage, ToolMessage

from toolweave.nodes.dialogue import requested_calls
from toolweave.nodes.tool_selection import FOUND
from toolweave.nodes.tool_task import as_object

WHOLE = "whole_result"
LONGEST_ERROR = 300
MOST_ERRORS = 5
_CUT = re.compile(r"\n{0,2}\[The answer was cut: [^\n]{1,600}\]\s*\Z")
_NOT_SHOWN = re.compile(
    r"^\[(?:image|file|audio|resource|content)\b[^\n]{0,5000}, (?:not shown|too much to show)\]$\n?", re.MULTILINE
)


class ToolResult(NamedTuple):
    """A call that succeeded: its tool, arguments, whole text, and structured content if there was some."""

    tool: str
    arguments: dict[str, Any]
    text: str
    structured: Any = None


def tool_results(messages: Sequence[AnyMessage]) -> list[ToolResult]:
    """Give the results of the calls that succeeded, as they were asked for; those of our own tools do not count."""
    return [
        ToolResult(call["name"], as_object(call["args"]), _text(answer), _structured(answer))
        for call, answer in _answered(messages)
        if answer.status != "error" and FOUND not in _artifact(answer)
    ]


def tool_errors(messages: Sequence[AnyMessage]) -> list[str]:
    """Give what failed calls said, each on a line, the last ones."""
    told = [
        f"{call['name']}: {' '.join(str(answer.text).split())[:LONGEST_ERROR]}"
        for call, answer in _answered(messages)
        if answer.status == "error"
    ]
    return list(dict.fromkeys(told))[-MOST_ERRORS:]


def failed_arguments(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Give the arguments of the calls that failed."""
    return [as_object(call["args"]) for call, answer in _answered(messages) if answer.status == "error"]


def _answered(messages: Sequence[AnyMessage]) -> Iterator[tuple[Any, ToolMessage]]:
    answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    for message in messages:
        yield from ((call, answers[call["id"]]) for call in requested_calls(message) if call["id"] in answers)


def _text(answer: ToolMessage) -> str:
    whole = _artifact(answer).get(WHOLE)
    if isinstance(whole, dict) and isinstance(whole.get("text"), str):
        return _NOT_SHOWN.sub("", whole["text"])
    blocks = [answer.content] if isinstance(answer.content, str) else answer.content
    texts = [block if isinstance(block, str) else str(block.get("text", "")) for block in blocks]
    return _NOT_SHOWN.sub("", _CUT.sub("", "\n".join(text for text in texts if text)))


def _structured(answer: ToolMessage) -> Any:
    artifact = _artifact(answer)
    whole = artifact.get(WHOLE)
    return (whole if isinstance(whole, dict) else artifact).get("structured_content")


def _artifact(answer: ToolMessage) -> dict[str, Any]:
    return answer.artifact if isinstance(answer.artifact, dict) else {}
