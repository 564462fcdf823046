"""Find the JSON objects in a model's answer, in the forms in which models and endpoints write structured output.

A tool call under any name; a call as it was written before there were tool calls; JSON as text, plain, fenced or
within prose.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage

MOST_STARTS = 50
# Up to the next beginning of one: to look for an end that never comes from each of them would take quadratic time.
_THOUGHTS = re.compile(r"<think>(?:(?!<think>).)*?</think>", re.DOTALL)


def written_objects(answer: AIMessage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the JSON objects of an answer with the name of the function they are for."""
    for call in answer.tool_calls:
        yield call["name"], call["args"]
    legacy = answer.additional_kwargs.get("function_call")
    if isinstance(legacy, dict) and (value := as_object(legacy.get("arguments"))) is not None:
        yield str(legacy.get("name") or ""), value
    for value in _objects_in(_THOUGHTS.sub("", answer.text)):
        yield "", value


def _objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Give the object that a text is the JSON of, or else those in it, one after the other."""
    if (whole := as_object(text)) is not None:
        yield whole
        return
    decoder = json.JSONDecoder(strict=False)
    start = -1
    for _ in range(MOST_STARTS):
        start = text.find("{", start + 1)
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        start = end - 1
        if value and (found := as_object(value)) is not None:
            yield found


def as_object(value: Any) -> dict[str, Any] | None:
    """Return an object, or the one that a text is the whole JSON of; None for anything else."""
    try:
        read = json.loads(value, strict=False) if isinstance(value, str) else value
        json.dumps(read, ensure_ascii=False).encode()  # half a character cannot be sent on
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None
