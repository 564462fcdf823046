"""Say in plain words how the calls of a turn ended, or ask for what is missing."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolweave.nodes.offline_model.conversation import NO_ANSWER
from toolweave.nodes.offline_model.language.vocabulary import TOOL_VERBS
from toolweave.nodes.offline_model.resolution import Question
from toolweave.nodes.offline_model.tools.parameters import name_words
from toolweave.nodes.offline_model.tools.records import Record
from toolweave.nodes.offline_model.tools.tool_results import ToolResult
from toolweave.nodes.offline_model.tools.tool_specs import ToolSpec

NOTICE = "(offline model)"
"""What every answer ends with that does not come from a tool (O-04)."""

_MAX_LINES = 50
_MAX_TEXT = 4000
_DONE = {"create": "Created", "update": "Updated", "delete": "Deleted", "send": "Sent", "run": "Ran"}
_LEFT_OUT = frozenset(
    {
        "id",
        "title",
        "name",
        "created_at",
        "updated_at",
        "completed_at",
        "created",
        "updated",
        "user_id",
        "owner_id",
        "type",
        "object",
    }
)


def with_notice(text: str) -> str:
    """Mark an answer that no tool gave (O-04)."""
    return f"{text}\n{NOTICE}"


def tell_results(results: Sequence[ToolResult], tools: Sequence[ToolSpec]) -> str:
    """Tell how calls ended, one paragraph each, failures included."""
    specs = {tool.name: tool for tool in tools}
    return "\n\n".join(dict.fromkeys(_tell(result, specs.get(result.name)) for result in results))


def _tell(result: ToolResult, tool: ToolSpec | None) -> str:
    noun = tool.noun if tool else _noun_of(result.name)
    action = (
        tool.action
        if tool
        else next((TOOL_VERBS[part] for part in name_words(result.name) if part in TOOL_VERBS), None)
    )
    if not result.ok:
        return _tell_failure(result, action, noun)
    if action in ("create", "update", "delete") and (
        result.records or result.data is None or isinstance(result.data, Mapping)
    ):
        return _tell_change(result, action, noun)
    return _tell_found(result, noun, listing=action in ("list", "search"))


def _noun_of(name: str) -> str:
    parts = [part for part in name_words(name) if part not in TOOL_VERBS]
    return (parts[-1] if parts else "result").removesuffix("s") or "result"


def _tell_failure(result: ToolResult, action: str | None, noun: str) -> str:
    attempt = {"list": f"list the {noun}s", "search": f"search the {noun}s"}.get(
        action or "",
        f"{action} the {noun}" if action in ("create", "update", "delete") else f"get an answer from {result.name}",
    )
    problem = result.problem[:_MAX_TEXT].strip()
    if result.problem == NO_ANSWER:
        return f"I asked to {attempt}, but {NO_ANSWER}, so I do not know whether it was done."
    return f"I could not {attempt}: {problem}{'' if problem.endswith(('.', '!', '?')) else '.'}"


def _tell_change(result: ToolResult, action: str, noun: str) -> str:
    record = result.records[0] if result.records else None
    given = {name: value for name, value in result.arguments.items() if name != "id"}
    title = record.title if record else next((value for value in given.values() if isinstance(value, str)), "")
    named = f" “{title}”" if title else ""
    identity = record.id if record else result.arguments.get("id")
    number = f" (id {identity})" if identity is not None else ""
    if action == "update":
        changes = ", ".join(f"{_label(name)} is now {_plain(value)}" for name, value in given.items())
        return f"Updated the {noun}{named}{number}: {changes}." if changes else f"Updated the {noun}{named}{number}."
    extra = "" if action == "delete" else _details(given, title)
    said = f"{_DONE[action]} the {noun}{named}{number}{extra}."
    return said if record or not result.text or result.data is not None else f"{said}\n{_shortened(result.text)}"


def _details(values: Mapping[str, Any], title: str) -> str:
    told = [
        f"{_label(name)} {_plain(value)}"
        for name, value in values.items()
        if name not in _LEFT_OUT and value not in (None, "", [], title)
    ]
    return f", {', '.join(told)}" if told else ""


def _tell_found(result: ToolResult, noun: str, *, listing: bool) -> str:
    if listing and result.data is not None:
        filters = ", ".join(
            f"{_label(name)} {_plain(value)}"
            for name, value in result.arguments.items()
            if name not in ("limit", "cursor") and value != "all"
        )
        about = f" ({filters})" if filters else ""
        if result.records:
            return _tell_list(result.records, noun, about)
        if result.data in ([], {}) or (isinstance(result.data, Mapping) and not any(result.data.values())):
            return f"I found no {noun}s{about}."
    return _tell_data(result.data, result.text)


def _tell_list(records: Sequence[Record], noun: str, about: str) -> str:
    count = len(records)
    lines = [f"I found {count} {noun if count == 1 else noun + 's'}{about}:"]
    lines += [
        f"- {record.title or _label(str(record.id))} (id {record.id}{_record_details(record)})"
        for record in records[:_MAX_LINES]
    ]
    if count > _MAX_LINES:
        lines.append(f"… and {count - _MAX_LINES} more.")
    return "\n".join(lines)


def _record_details(record: Record) -> str:
    shown = {
        name: value
        for name, value in record.data.items()
        if isinstance(name, str)
        and (
            isinstance(value, str | int | float)
            and len(str(value)) <= 60
            or (isinstance(value, list) and len(value) <= 10)
        )
    }
    return _details({name: value for name, value in shown.items() if value != record.id}, record.title)


def _tell_data(data: Any, text: str) -> str:
    if isinstance(data, Mapping):
        if len(data) == 1:
            return (
                _tell_data(*2 * (next(iter(data.values())),))
                if not isinstance(next(iter(data.values())), str)
                else _shortened(str(next(iter(data.values()))))
            )
        lines = [f"- {_label(str(name))}: {_plain(value)}" for name, value in list(data.items())[:_MAX_LINES]]
        return "\n".join(["This is the result:", *lines]) if lines else "The result is empty."
    if isinstance(data, list):
        lines = [f"- {_plain(value)}" for value in data[:_MAX_LINES]]
        return "\n".join([f"I found {len(data)} results:", *lines]) if lines else "The result is empty."
    if data is not None:
        return _shortened(_plain(data))
    return _shortened(str(text)) if str(text).strip() else "Done; the tool gave no further answer."


def _label(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value[:20]) or "empty"
    if isinstance(value, Mapping):
        return "; ".join(f"{_label(str(name))} {_plain(inner)}" for name, inner in list(value.items())[:10])
    return "nothing" if value is None else str(value)[:500]


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT].rstrip()} … ({len(text)} characters in all)"


def ask(question: Question) -> str:
    """Ask the user for what an intent needs."""
    tool = question.intent.tool
    verb = {"create": "add", "delete": "delete", "update": "change"}.get(tool.action or "", "use")
    if question.reason == "too_long" and question.intent.too_long:
        most = question.intent.too_long.schema.get("maxLength")
        return f"The {_label(question.intent.too_long.name)} may have at most {most} characters. What shorter text shall I use?"
    if question.reason == "no_change":
        options = ", ".join(_label(one.name) for one in tool.parameters if not one.required)
        return f"What shall I change about the {tool.noun}? I can set its {options}."
    if question.candidates:
        return _ask_which(question, verb)
    sought = question.intent.target.text if question.intent.target else ""
    if question.reason == "none":
        return f"I found no {tool.noun}{f' that fits “{sought}”' if sought else ''}. Which {tool.noun} do you mean?"
    if question.intent.missing and tool.action == "update":
        return f"What shall the new {_label(question.intent.missing[0].name)} be?"
    if question.intent.target is not None:
        return f"Which {tool.noun} shall I {verb}? Tell me its title or its id."
    listed = " and ".join(f"the {_label(one.name)}" for one in question.intent.missing)
    return f"I need {listed} to {verb if tool.action in ('create',) else 'call'} {_thing(tool)}. What shall it be?"


def _thing(tool: ToolSpec) -> str:
    return f"the {tool.noun}" if tool.action == "create" else tool.name


def _ask_which(question: Question, verb: str) -> str:
    noun = question.intent.tool.noun
    lines = [f"- {record.title or noun} (id {record.id})" for record in question.candidates[:_MAX_LINES]]
    if question.reason == "confirm":
        return "\n".join([f"Shall I {verb} all of these?", *lines])
    if len(lines) == 1:
        return "\n".join([f"Do you mean this {noun}?", *lines])
    return "\n".join([f"Which {noun} do you mean?", *lines])
