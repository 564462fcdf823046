"""Parse a conversation into turns with the results of their tool calls, and describe results in plain words."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from toolweave.nodes.offline_model.english import Action, count_shared, stems
from toolweave.nodes.offline_model.tools import ToolSpec, parse_tool

NOTICE = "(offline model)"
"""Marks every answer (O-04, U-04)."""
NO_ANSWER = "the call was not answered"

_ID_KEYS = ("id", "uuid", "key", "number", "identifier")
_TITLE_KEYS = ("title", "name", "subject", "summary", "headline", "label", "text", "content", "message", "path", "url")
_MAX_DEPTH = 6
_MAX_RECORDS = 500
_MAX_JSON = 2_000_000
# Half of the words may match by chance ("flight to Paris", "Book flight to Lisbon"): then the user is asked.
_SURE_MATCH, _POSSIBLE_MATCH = 0.6, 0.25

_MAX_LINES = 50
_MAX_ITEMS = 20
_MAX_TEXT_CHARS = 4000
_MAX_VALUE_CHARS = 500
_MAX_DETAIL_CHARS = 60
_HIDDEN_FIELDS = frozenset(
    {"id", "title", "name", "created_at", "updated_at", "completed_at", "created", "updated", "user_id", "owner_id"}
)
_DONE_VERBS: dict[Action | None, str] = {"create": "Created", "update": "Updated", "delete": "Deleted"}

CallKey = tuple[str, str]


@dataclass(frozen=True)
class Record:
    """An object with an id in a result: its title, and the whole object as `data`."""

    id: int | str
    title: str
    data: Mapping[str, Any] = field(compare=False, hash=False)

    def match_score(self, expected: Sequence[str]) -> float:
        """Return the share of the expected stems in this record; those outside its title count half."""
        if not expected:
            return 0.0
        in_title = count_shared(expected, stems(self.title))
        everywhere = count_shared(expected, self._stems())
        return (in_title + 0.5 * max(0, everywhere - in_title)) / len(set(expected))

    def absent(self, listed: Sequence[str]) -> tuple[str, ...]:
        """Return the words that are nowhere in this record."""
        present = self._stems()
        return tuple(word for word in listed if count_shared(stems(word), present) < len({*stems(word)}))

    def _stems(self) -> list[str]:
        return [*stems(self.title), *(word for text in self._texts() for word in stems(text))]

    def _texts(self) -> Iterator[str]:
        for value in self.data.values():
            if isinstance(value, str) and len(value) < 2000:
                yield value
            elif isinstance(value, list):
                yield from (item for item in value[:50] if isinstance(item, str))


@dataclass(frozen=True)
class ToolResult:
    """The result of one call: `data` is the parsed payload, `text` the message as it came."""

    name: str
    arguments: Mapping[str, Any]
    ok: bool
    data: Any = None
    text: str = ""
    problem: str = ""
    records: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Turn:
    """One user message, the results of the calls made for it, and the text of the last answer."""

    text: str
    results: Mapping[CallKey, ToolResult] = field(default_factory=dict)
    answer: str = ""


@dataclass(frozen=True)
class Reply:
    """The next message: calls as (name, arguments), or a text."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def call_key(name: str, arguments: Mapping[str, Any]) -> CallKey:
    """Return a key that is equal for equal calls."""
    return name, json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=str)


def read_turns(messages: Sequence[BaseMessage], *, limit: int) -> list[Turn]:
    """Return the last turns, oldest first; the last one needs a reply."""
    starts = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)][-limit:]
    if not starts:
        return [_read_turn("", messages)]
    return [
        _read_turn(content_text(messages[start].content), messages[start + 1 : end])
        for start, end in zip(starts, [*starts[1:], len(messages)], strict=True)
    ]


def _read_turn(text: str, replies: Sequence[BaseMessage]) -> Turn:
    answers = {reply.tool_call_id: reply for reply in replies if isinstance(reply, ToolMessage)}
    results: dict[CallKey, ToolResult] = {}
    answer = ""
    for reply in replies:
        if isinstance(reply, AIMessage):
            answer = content_text(reply.content)
            for call in reply.tool_calls:
                message = answers.get(call["id"] or "")
                results[call_key(call["name"], call["args"])] = _read_result(message, call["name"], call["args"])
    return Turn(text, results, answer)


def content_text(content: object) -> str:
    """Return the text of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))


def _read_result(message: ToolMessage | None, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Parse a tool message: our envelope, any other JSON, or plain text."""
    if message is None:
        return ToolResult(name, arguments, ok=False, problem=NO_ANSWER)
    text = content_text(message.content).strip()
    data = _parse_json(text) if len(text) <= _MAX_JSON else None
    problem = _result_problem(message, data, text)
    if problem is not None:
        return ToolResult(name, arguments, ok=False, text=text, problem=problem)
    if isinstance(data, Mapping) and data.get("status") == "success" and "data" in data:
        data = data["data"]
    records = tuple(_find_records(data, 0))[:_MAX_RECORDS]
    return ToolResult(name, arguments, ok=True, data=data, text=text, records=records)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _result_problem(message: ToolMessage, data: object, text: str) -> str | None:
    """Return the tool's own error text (C-06); None if there is no error."""
    error = data.get("error") if isinstance(data, Mapping) else None
    if isinstance(error, Mapping):
        stated = [str(error[key]).strip() for key in ("message", "suggestion") if isinstance(error.get(key), str)]
        return " ".join(stated) or "the tool reported an error without details"
    return (text or "the tool gave no reason") if message.status == "error" else None


def _find_records(data: object, depth: int) -> Iterator[Record]:
    """Yield the records of a result in order, at any depth; a nested record belongs to its outer one."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(data, Mapping):
        record = _parse_record(data)
        if record:
            yield record
        else:
            for value in data.values():
                yield from _find_records(value, depth + 1)
    elif isinstance(data, list):
        for value in data[:_MAX_RECORDS]:
            yield from _find_records(value, depth + 1)


def _parse_record(data: Mapping[str, Any]) -> Record | None:
    named = (name for name in data if name.lower().endswith(("_id", "id")) and "cursor" not in name)
    key = next((name for name in _ID_KEYS if name in data), None) or next(named, None)
    value = data.get(key) if key else None
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        return None
    title = next((data[name] for name in _TITLE_KEYS if isinstance(data.get(name), str) and data[name]), "")
    return Record(value, title, data)


def match_records(phrase: str, expected: Sequence[str], records: Sequence[Record]) -> tuple[Record, ...] | Record:
    """Return the record that a phrase clearly names, else all that it may name."""
    flat = " ".join(phrase.lower().split())
    exact = tuple(record for record in records if " ".join(record.title.lower().split()) == flat)
    if exact:
        return exact[0] if len(exact) == 1 else exact
    scored = [(record.match_score(expected), record) for record in records]
    best = max((score for score, _ in scored), default=0.0)
    if best <= _POSSIBLE_MATCH:
        return ()
    top = tuple(record for score, record in scored if score == best)
    return top[0] if len(top) == 1 and best >= _SURE_MATCH else top


# Results in plain words


def describe_results(results: Sequence[ToolResult], tools: Sequence[ToolSpec]) -> str:
    """Describe the results of calls, one paragraph each; only successful ones are described as done (T-06)."""
    specs = {tool.name: tool for tool in tools}
    paragraphs = (_describe(result, specs.get(result.name) or parse_tool({"name": result.name})) for result in results)
    return "\n\n".join(dict.fromkeys(paragraphs))


def _describe(result: ToolResult, tool: ToolSpec) -> str:
    if not result.ok:
        return _describe_failure(result, tool)
    if tool.action in _DONE_VERBS and result.records:
        return _describe_change(result, tool)
    if tool.action in ("list", "search") and result.data is not None:
        return _describe_list(result, tool.noun)
    return describe_data(result.data, result.text)


def _describe_failure(result: ToolResult, tool: ToolSpec) -> str:
    attempt = f"get an answer from {result.name}"
    if tool.action in (*_DONE_VERBS, "list", "search"):
        attempt = f"{tool.action} the {plural(tool.noun, 1 if tool.action in _DONE_VERBS else 2)}"
    if result.problem == NO_ANSWER:
        return f"I tried to {attempt}, but {NO_ANSWER}, so I do not know whether it was done."
    problem = shorten(result.problem.strip())
    return f"I could not {attempt}: {problem}{'' if problem.endswith(('.', '!', '?')) else '.'}"


def _describe_change(result: ToolResult, tool: ToolSpec) -> str:
    values = {name: value for name, value in result.arguments.items() if name != "id"}
    return f"{_DONE_VERBS[tool.action]} the {tool.noun} {_record_text(result.records[0], values)}."


def _describe_list(result: ToolResult, noun: str) -> str:
    filters = [
        f"{label(name)} {value_text(value)}"
        for name, value in result.arguments.items()
        if name not in ("limit", "cursor") and value != "all"
    ]
    about = f" ({', '.join(filters)})" if filters else ""
    count = len(result.records)
    if count:
        lines = [f"I found {count} {plural(noun, count)}{about}:"]
        return "\n".join([*lines, *cut_lines([f"- {_record_text(record, record.data)}" for record in result.records])])
    if not result.data or (isinstance(result.data, Mapping) and not any(result.data.values())):
        return f"I found no {plural(noun, 2)}{about}."
    return describe_data(result.data, result.text)


def _record_text(record: Record, values: Mapping[str, Any]) -> str:
    """Return a record's title with its id and those of its values that are short enough for one line."""
    hidden: tuple[Any, ...] = (None, "", [], {}, record.id, record.title)
    details = [f"id {record.id}"] if record.id != "" else []
    details += [
        f"{label(str(name))} {value_text(value)}"
        for name, value in values.items()
        if name not in _HIDDEN_FIELDS and value not in hidden and len(str(value)) <= _MAX_DETAIL_CHARS
    ]
    return f"“{record.title or record.id}” ({', '.join(details)})"


def describe_data(data: Any, text: str) -> str:
    """Describe any payload: a single value as it is, fields and items as a list, else the text itself."""
    if isinstance(data, Mapping) and len(data) == 1:
        (inner,) = data.values()
        return describe_data(inner, value_text(inner))
    if isinstance(data, Mapping | list) and not data:
        return "The result is empty."
    if isinstance(data, Mapping):
        lines = [f"- {label(str(name))}: {value_text(value)}" for name, value in data.items()]
        return "\n".join(["This is the result:", *cut_lines(lines)])
    if isinstance(data, list):
        return "\n".join([f"I found {len(data)} results:", *cut_lines([f"- {value_text(value)}" for value in data])])
    if isinstance(data, str):
        return shorten(data)
    if data is not None:
        return value_text(data)
    return shorten(text) if text.strip() else "Done; the tool returned no further answer."


def describe_api_answer(message: str) -> str:
    """Describe the API response in a message of the workflow and append the remark after it; empty without one."""
    framed, closing, remark = message.rpartition("\n</api_answer>")
    answer = framed.rpartition("<api_answer")[2].partition(">")[2].strip()
    return f"{describe_data(_parse_json(answer), answer)}\n{remark.strip()}".rstrip() if closing else ""


def label(name: str) -> str:
    """Return a parameter's name as words."""
    return name.replace("_", " ")


def plural(noun: str, count: int) -> str:
    """Return a noun in the form for a count."""
    if count == 1:
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "sh", "ch")) else f"{noun}s"


def value_text(value: Any) -> str:
    """Return any JSON value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value_text(item) for item in value[:_MAX_ITEMS])[:_MAX_VALUE_CHARS] or "empty"
    if isinstance(value, Mapping):
        fields = (f"{label(str(name))} {value_text(inner)}" for name, inner in list(value.items())[:_MAX_ITEMS])
        return "; ".join(fields)[:_MAX_VALUE_CHARS]
    return "nothing" if value is None else str(value)[:_MAX_VALUE_CHARS]


def shorten(text: str) -> str:
    """Cut a long text and append its length."""
    if len(text) <= _MAX_TEXT_CHARS:
        return text
    return f"{text[:_MAX_TEXT_CHARS].rstrip()} … ({len(text)} characters in all)"


def cut_lines(lines: list[str], most: int = _MAX_LINES) -> list[str]:
    """Return the first lines, and a line with the number of the others."""
    beyond = len(lines) - most
    return lines if beyond <= 0 else [*lines[:most], f"… and {beyond} more."]
