"""Run the model in a plain agent loop on one request and judge the calls it makes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from tests.nodes.offline_model.requests import OPERATIONS, Call, Request
from tests.nodes.offline_model.todo_backend import seeded_backend
from toolweave.nodes.offline_model.model import OfflineChatModel

TODAY = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
MAX_MODEL_CALLS = 10
CHANGES = ("create_todo", "update_todo", "delete_todo")


def offline_model() -> OfflineChatModel:
    """Give the model with the clock of the list: Wednesday, 4 March 2026."""
    return OfflineChatModel(clock=lambda: TODAY)


def converse(
    texts: Sequence[str], tools: Sequence[BaseTool], model: OfflineChatModel | None = None
) -> list[AnyMessage]:
    """Send the texts one after the other and execute the calls of the model; return all messages."""
    by_name = {tool.name: tool for tool in tools}
    bound = (model or offline_model()).bind_tools(tools)
    messages: list[AnyMessage] = []
    for text in texts:
        messages.append(HumanMessage(text))
        for _ in range(MAX_MODEL_CALLS):
            reply = bound.invoke(messages)
            messages.append(reply)
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                result = by_name[call["name"]].invoke(call)
                assert isinstance(result, ToolMessage)
                messages.append(result)
        else:
            raise AssertionError(f"no answer after {MAX_MODEL_CALLS} model calls: {text!r}")
    return messages


def calls_after_last_request(messages: Sequence[AnyMessage]) -> tuple[Call, ...]:
    start = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
    replies = [message for message in messages[start:] if isinstance(message, AIMessage)]
    return tuple((call["name"], call["args"]) for reply in replies for call in reply.tool_calls)


def judge(request: Request) -> bool:
    """Return whether the calls for one request do exactly one of the accepted lists.

    What changes something must match call for call, argument for argument. Reading first is allowed when something
    is changed or unclear; otherwise the reads must match too. A question must come where one is due.
    """
    messages = converse([*request.history, request.text], seeded_backend().tools())
    calls, answer = calls_after_last_request(messages), messages[-1].text
    right = any(_is_right(calls, accepted, asks=request.asks) for accepted in request.accepted)
    return right and (not request.asks or "?" in answer)


def _is_right(calls: Sequence[Call], accepted: Sequence[Call], *, asks: bool) -> bool:
    changes = [call for call in accepted if call[0] in CHANGES]
    reads = [call for call in accepted if call[0] not in CHANGES]
    made_changes = [call for call in calls if call[0] in CHANGES]
    made_reads = [call for call in calls if call[0] not in CHANGES]
    looking_first = asks or any(name in ("update_todo", "delete_todo") for name, _ in changes)
    return _same_calls(made_changes, changes) and (
        _same_calls(made_reads, reads) or (looking_first and not reads and all(_looks(call) for call in made_reads))
    )


def _looks(call: Call) -> bool:
    return call[0] in ("search_todos", "list_todos")


def _same_calls(made: Sequence[Call], wanted: Sequence[Call]) -> bool:
    left = list(made)
    for name, arguments in wanted:
        match = next((call for call in left if call[0] == name and _same_arguments(call[1], arguments)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _same_arguments(made: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return all(_fits(made.get(name), wanted.get(name)) for name in {*made, *wanted})


def _fits(made: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return any(_fits(made, option) for option in wanted["any"])
    if isinstance(made, str) and isinstance(wanted, str):
        return made.casefold().strip(" .") == wanted.casefold().strip(" .")
    return made is wanted if isinstance(made, bool) or isinstance(wanted, bool) else bool(made == wanted)


def shares(requests: Iterable[Request]) -> dict[str, tuple[int, int]]:
    """Count the right ones and all of each kind, and of the five operations together under `overall`."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for request in requests:
        verdict = judge(request)
        for key in (request.operation, "overall") if request.operation in OPERATIONS else (request.operation,):
            total[key] += 1
            right[key] += verdict
    return {key: (right[key], total[key]) for key in total}
