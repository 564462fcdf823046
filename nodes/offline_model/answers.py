"""Say in plain words how the calls of a turn ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolweave.nodes.offline_model.conversation import NO_ANSWER
from toolweave.nodes.offline_model.language.vocabulary import TOOL_VERBS, Action
from toolweave.nodes.offline_model.plain_words import details, label, listed, plain, plural, record_line, shortened
from toolweave.nodes.offline_model.tools.parameters import name_words
from toolweave.nodes.offline_model.tools.tool_results import ToolResult
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

_DONE: dict[Action, str] = {"create": "Created", "update": "Updated", "delete": "Deleted"}


def tell_results(results: Sequence[ToolResult], tools: Sequence[ToolSpec]) -> str:
    """Tell how calls ended, one paragraph each, failures included; only a good result is told as done (T-06)."""
    specs = {tool.name: tool for tool in tools}
    return "\n\n".join(dict.fromkeys(_tell(result, specs.get(result.name)) for result in results))


def _tell(result: ToolResult, tool: ToolSpec | None) -> str:
    parts = name_words(result.name)
    nouns = [part for part in parts if part not in TOOL_VERBS]
    noun = tool.noun if tool else (nouns[-1].removesuffix("s") if nouns else "result")
    action = tool.action if tool else next((TOOL_VERBS[part] for part in parts if part in TOOL_VERBS), None)
    if not result.ok:
        return _tell_failure(result, action, noun)
    if action in _DONE and (result.records or not (result.data or result.text)):
        return _tell_change(result, action, noun)
    if action in ("list", "search") and result.data is not None:
        return _tell_list(result, noun)
    return tell_data(result.data, result.text)


def _tell_failure(result: ToolResult, action: Action | None, noun: str) -> str:
    if action in ("list", "search"):
        attempt = f"{action} the {plural(noun, 2)}"
    else:
        attempt = f"{action} the {noun}" if action in _DONE else f"get an answer from {result.name}"
    if result.problem == NO_ANSWER:
        return f"I asked to {attempt}, but {NO_ANSWER}, so I do not know whether it was done."
    problem = shortened(result.problem.strip())
    return f"I could not {attempt}: {problem}{'' if problem.endswith(('.', '!', '?')) else '.'}"


def _tell_change(result: ToolResult, action: Action | None, noun: str) -> str:
    record = result.records[0] if result.records else None
    given = {name: value for name, value in result.arguments.items() if name != "id"}
    title = record.title if record else next((value for value in given.values() if isinstance(value, str)), "")
    identity = record.id if record else result.arguments.get("id")
    named = f" “{title}”" if title else ""
    number = f" (id {identity})" if identity is not None else ""
    said = f"{_DONE[action] if action else 'Called'} the {noun}{named}{number}"
    if action == "create":
        return f"{said}{details(given, title)}."
    if action == "update" and given:
        return f"{said}: {', '.join(f'{label(name)} is now {plain(value)}' for name, value in given.items())}."
    return f"{said}."


def _tell_list(result: ToolResult, noun: str) -> str:
    filters = [
        f"{label(name)} {plain(value)}"
        for name, value in result.arguments.items()
        if name not in ("limit", "cursor") and value != "all"
    ]
    about = f" ({', '.join(filters)})" if filters else ""
    count = len(result.records)
    if count:
        lines = [f"I found {count} {plural(noun, count)}{about}:"]
        return "\n".join([*lines, *listed([record_line(record) for record in result.records])])
    if not result.data or (isinstance(result.data, Mapping) and not any(result.data.values())):
        return f"I found no {plural(noun, 2)}{about}."
    return tell_data(result.data, result.text)


def tell_data(data: Any, text: str) -> str:
    """Tell any payload: a lone value as it is, fields and items as a list, else the text itself."""
    if isinstance(data, Mapping) and len(data) == 1:
        (inner,) = data.values()
        return tell_data(inner, plain(inner))
    if isinstance(data, Mapping | list) and not data:
        return "The result is empty."
    if isinstance(data, Mapping):
        lines = [f"- {label(str(name))}: {plain(value)}" for name, value in data.items()]
        return "\n".join(["This is the result:", *listed(lines)])
    if isinstance(data, list):
        return "\n".join([f"I found {len(data)} results:", *listed([f"- {plain(value)}" for value in data])])
    if isinstance(data, str):
        return shortened(data)
    if data is not None:
        return plain(data)
    return shortened(text) if text.strip() else "Done; the tool gave no further answer."
