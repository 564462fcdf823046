"""Read what a tool answered: our envelope, any other JSON, or plain text; and whether it went wrong."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage

from toolweave.nodes.offline_model.tools.records import Record, find_records

_ERROR_START = re.compile(r"\s*(?:error|exception|failed|failure|traceback)\b\s*:?", re.IGNORECASE)
_MAX_JSON = 2_000_000


@dataclass(frozen=True)
class ToolResult:
    """One answered call: `data` is the payload, `text` says it in words when it has no other form."""

    name: str
    arguments: Mapping[str, Any]
    ok: bool
    data: Any = None
    text: str = ""
    problem: str = ""
    records: tuple[Record, ...] = field(default=())


def text_of(content: object) -> str:
    """Give the text of a message's content, be it a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [
        block if isinstance(block, str) else block.get("text") for block in content if isinstance(block, str | dict)
    ]
    return "\n".join(text for text in texts if isinstance(text, str))


def read_result(message: ToolMessage, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Read one tool message as the result of a call."""
    text = text_of(message.content).strip()
    data = _parse(text)
    problem = _problem(message, data, text)
    if problem is not None:
        return ToolResult(name, arguments, ok=False, text=text, problem=problem)
    if isinstance(data, Mapping) and data.get("status") == "success" and "data" in data:
        data = data["data"]
    return ToolResult(name, arguments, ok=True, data=data, text=text, records=tuple(find_records(data)))


def _parse(text: str) -> Any:
    if len(text) > _MAX_JSON or not text.startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _problem(message: ToolMessage, data: object, text: str) -> str | None:
    """Say what went wrong in the tool's own words; None when nothing did."""
    error = data.get("error") if isinstance(data, Mapping) else None
    failed = message.status == "error" or (
        isinstance(data, Mapping) and (data.get("status") == "error" or data.get("isError") is True)
    )
    if isinstance(error, Mapping):
        said = " ".join(str(error[key]).strip() for key in ("message", "suggestion") if isinstance(error.get(key), str))
        return said or "the tool reported an error without saying which"
    if isinstance(error, str) and error:
        return error
    if failed:
        stated = data.get("message") if isinstance(data, Mapping) else None
        return (
            str(stated)
            if isinstance(stated, str)
            else _ERROR_START.sub("", text, count=1).strip() or "the tool gave no reason"
        )
    if data is None and _ERROR_START.match(text) and len(text) < 2000:
        return _ERROR_START.sub("", text, count=1).strip() or text
    return None
