"""Interrupt a run for a person: to approve tool calls, or to answer questions of a tool's server (S-07).

Requests and answers have the format of Agent Inbox: HumanInterrupt and HumanResponse. An invalid answer does not fail
the run: the node interrupts again with the same requests, and their descriptions say what was wrong.

A call whose server sends a question (MCP elicitation) ends without a result. Its questions stay in the state until the
turn's other calls have finished. Then one interrupt sends all of them, and each call is issued again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command, Send, interrupt
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolweave.nodes.agent import AgentState, RoutingNode, is_unattended, last_answer, server_calls
from toolweave.nodes.tool_calls import (
    AnsweredQuestion,
    RequestedCall,
    ServerQuestion,
    ToolTask,
    WaitingCall,
    args_dict,
    requested_calls,
    result_message,
    tool_task,
    with_executed_calls,
)
from toolweave.nodes.tool_catalog import ToolCatalog, find_tool

T = TypeVar("T")
ResponseKind = Literal["approve", "edit", "reject", "respond"]
_KIND_BY_TYPE: dict[object, ResponseKind] = {
    "accept": "approve",
    "approve": "approve",
    "edit": "edit",
    "ignore": "reject",
    "reject": "reject",
    "response": "respond",
    "respond": "respond",
}
_RESPONSE_FORMAT = '{"type": "approve" | "edit" | "reject" | "respond", "args": …}'


class HumanInterrupt(TypedDict):
    """One request to a person, in the format of Agent Inbox."""

    action_request: dict[str, Any]
    config: dict[str, bool]
    description: str


@dataclass(frozen=True, slots=True)
class HumanResponse:
    """One answer with the type as our API names it; `args` is unchanged."""

    kind: ResponseKind
    args: Any = None


class InvalidAnswer(ValueError):
    """An answer that cannot be used; the text explains why to the person."""


def interrupt_until_valid(requests: Sequence[HumanInterrupt], interpret: Callable[[list[HumanResponse]], T]) -> T:
    """Interrupt the run until there is a valid answer for each request; return what `interpret` returns.

    Args:
        requests: the requests of one interrupt.
        interpret: reads one answer for each request; raises InvalidAnswer if one is invalid.
    """
    problem = ""
    while requests:
        answer = interrupt([{**request, "description": problem + request["description"]} for request in requests])
        try:
            return interpret(_parse_responses(answer, len(requests)))
        except InvalidAnswer as error:
            problem = f"The answer could not be used: {error}\n\n"
    return interpret([])


def _request(
    tool: str, args: dict[str, Any], description: str, *, allow_edit: bool = True, allow_accept: bool = True
) -> HumanInterrupt:
    allowed = {"allow_ignore": True, "allow_respond": True, "allow_edit": allow_edit, "allow_accept": allow_accept}
    return {"action_request": {"action": tool, "args": args}, "config": allowed, "description": description}


def _parse_responses(answer: object, expected: int) -> list[HumanResponse]:
    answers = [answer] if expected == 1 and isinstance(answer, dict | str) else answer
    if not isinstance(answers, list) or len(answers) != expected:
        raise InvalidAnswer(f"resume with a list of {expected} answers in request order, each {_RESPONSE_FORMAT}.")
    return [_parse_response(item) for item in answers]


def _parse_response(item: object) -> HumanResponse:
    response = {"type": item} if isinstance(item, str) else item
    if not isinstance(response, dict):
        raise InvalidAnswer(f"an answer is {_RESPONSE_FORMAT}.")
    kind = response.get("type")
    if not isinstance(kind, str) or kind not in _KIND_BY_TYPE:
        raise InvalidAnswer(f"its type is {str(kind)[:50]!r}; an answer is {_RESPONSE_FORMAT}.")
    return HumanResponse(_KIND_BY_TYPE[kind], response.get("args"))


MAX_SHOWN_FIELDS = 20
MAX_CHOICES_CHARS = 500
_PLAIN_VALUE: TypeAdapter[object] = TypeAdapter(
    str | bool | int | float | list[str] | None, config=ConfigDict(strict=True, allow_inf_nan=False)
)
_BOOLEAN_WORDS = {"yes": True, "true": True, "no": False, "false": False}


def answer_question(question: ServerQuestion, response: HumanResponse) -> AnsweredQuestion:
    """Answer a question: "approve" uses the defaults, "respond" has an object or its text, "reject" declines.

    Raises:
        InvalidAnswer: the answer does not match the schema, or is an edit.
    """
    if response.kind == "reject":
        return {**question, "action": "decline", "content": None}
    if response.kind == "edit":
        raise InvalidAnswer("edit does not apply to a question: respond with the answer.")
    provided = {} if response.kind == "approve" else _parse_content(response.args, _fields(question["requestedSchema"]))
    content = _defaults(question["requestedSchema"]) | provided
    if problems := _problems(content, question["requestedSchema"]):
        raise InvalidAnswer("; ".join(problems))
    return {**question, "action": "accept", "content": content}


def describe_fields(schema: Mapping[str, Any]) -> str:
    """Describe the fields of an answer for a person, one per line."""
    required = schema.get("required")
    lines = []
    for name, field in list(_fields(schema).items())[:MAX_SHOWN_FIELDS]:
        optional = "" if isinstance(required, list) and name in required else ", optional"
        text = field.get("description") or field.get("title") or ""
        choices = f" of {_json(field['enum'])[:MAX_CHOICES_CHARS]}" if isinstance(field.get("enum"), list) else ""
        lines.append(f"\n- {name} ({field.get('type', 'any')}{choices}{optional}) {text}".rstrip())
    return "".join(lines)


def _fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    return {name: field for name, field in fields.items() if isinstance(field, dict)}


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field["default"] for name, field in _fields(schema).items() if "default" in field}


def _parse_content(args: Any, fields: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the answer's object: an object as it is, a text as JSON, or a plain text as the only field's value."""
    parsed = _json_or_text(args) if isinstance(args, str) else args
    if isinstance(parsed, dict):
        return parsed
    if len(fields) != 1:
        raise InvalidAnswer(f"respond with an object with the fields {', '.join(fields) or '(none)'}.")
    [(name, field)] = fields.items()
    if not isinstance(args, str):
        return {name: args}
    if field.get("type") == "boolean":
        return {name: _BOOLEAN_WORDS.get(args.strip().lower(), args)}
    return {name: parsed if field.get("type") in ("integer", "number", "array") else args}


def _problems(content: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    fields = _fields(schema)
    unknown = [f"there is no field {name[:100]!r}" for name in content if name not in fields]
    unsendable = [f"{name} is no plain value" for name, value in content.items() if not _is_plain_value(value)]
    if unknown or unsendable:
        return [*unknown, *unsendable]
    # Imported here: JSON Schema takes a tenth of the import of all graphs, and few runs ask a person.
    from toolweave.schema import Schema  # noqa: PLC0415

    try:
        return Schema(schema).problems(dict(content))
    except ValueError:
        # The schema is invalid: the server validates the answer.
        return []


def _is_plain_value(value: object) -> bool:
    """Return whether MCP allows the value in an answer: string, number, boolean, null or a list of strings."""
    try:
        _PLAIN_VALUE.validate_python(value)
    except ValidationError:
        return False
    return True


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


MAX_ARGUMENTS_CHARS = 1_000
MIN_PART_CHARS = 40
MAX_SHOWN_ARGUMENTS = 100
NO_APPROVER_TEXT = "Not executed: this tool needs a person's approval, and nobody can be asked in this run."
CallDecision = ToolTask | ToolMessage
"""The decision about a call: a task that executes it, perhaps edited, or a message as its result."""


def approve_node(catalog: ToolCatalog) -> RoutingNode:
    """Return the node that interrupts once for all calls that need approval, and then sends the calls to execute."""

    async def approve(state: AgentState, config: RunnableConfig) -> Command[Any]:
        message = last_answer(state["messages"])
        names = state.get("to_approve", {})
        calls = [call for call in requested_calls(message) if call["id"] in names]
        if is_unattended(config):
            decisions: list[CallDecision] = [result_message(call, NO_APPROVER_TEXT) for call in calls]
        else:
            tools = await catalog.tools()
            decisions = interrupt_until_valid(
                [_approval_request(call["name"], args_dict(call["args"])) for call in calls],
                lambda answers: [
                    _decide(call, answer, names[call["id"]], tools) for call, answer in zip(calls, answers, strict=True)
                ],
            )
        remaining = iter(decisions)
        return _dispatch_calls(
            message, [next(remaining) if call in calls else tool_task(call) for call in server_calls(message, config)]
        )

    return approve


def _dispatch_calls(message: AnyMessage, decisions: Sequence[CallDecision]) -> Command[Any]:
    """Send each call to execute to the tool node, and update the model's message to the calls as executed."""
    tasks = [each for each in decisions if not isinstance(each, ToolMessage)]
    messages: list[AnyMessage] = [each for each in decisions if isinstance(each, ToolMessage)]
    goto: list[Send] | str = [Send("tools", [task]) for task in tasks] or "call_model"
    return Command(update={"messages": [*with_executed_calls(message, tasks), *messages], "to_approve": {}}, goto=goto)


def _approval_request(tool: str, arguments: dict[str, Any]) -> HumanInterrupt:
    return _request(tool, arguments, f"The agent wants to call {tool} with {_arguments_text(arguments)}")


def _arguments_text(arguments: Mapping[str, Any]) -> str:
    """Write arguments for a person; long ones are shortened one by one, so that no argument hides another."""
    whole = _json(arguments)
    if len(whole) <= MAX_ARGUMENTS_CHARS:
        return whole
    limit = max(MIN_PART_CHARS, MAX_ARGUMENTS_CHARS // len(arguments))
    parts = [f"{_cut(_json(name), limit)}: {_cut(_json(value), limit)}" for name, value in arguments.items()]
    more = f" and {len(parts) - MAX_SHOWN_ARGUMENTS} more" if len(parts) > MAX_SHOWN_ARGUMENTS else ""
    return f"{{{', '.join(parts[:MAX_SHOWN_ARGUMENTS])}{more}}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _decide(call: RequestedCall, answer: HumanResponse, tool_name: str, tools: Sequence[BaseTool]) -> CallDecision:
    match answer.kind:
        case "approve":
            return tool_task(call, approved_tool=tool_name)
        case "edit":
            name, arguments = _parse_edit(call, answer.args)
            tool = tool_name if name == call["name"] else _own_tool_name(name, tools)
            return tool_task({**call, "name": name, "args": arguments}, approved_tool=tool)
        case "respond":
            return result_message(call, _require_text(answer.args), status="success")
        case "reject":
            reason = _require_text(answer.args) if answer.args else ""
            return result_message(call, f"The user rejected this call; it was not executed. {reason}".rstrip())


def _parse_edit(call: RequestedCall, args: Any) -> tuple[str, dict[str, Any]]:
    """Return the tool name and arguments of an edit: an action with its arguments, or the arguments only."""
    name, arguments = call["name"], args
    if isinstance(args, dict) and args.keys() == {"action", "args"} and isinstance(args["action"], str):
        name, arguments = args["action"], args["args"]
    if not isinstance(arguments, dict):
        raise InvalidAnswer(f"the edited arguments of {call['name']} are not an object.")
    return name, arguments


def _own_tool_name(name: str, tools: Sequence[BaseTool]) -> str:
    tool = find_tool(tools, name)
    if tool is None:
        raise InvalidAnswer(f"there is no tool {name[:100]!r}.")
    return tool.name


def _require_text(args: Any) -> str:
    if not isinstance(args, str) or not args.strip():
        raise InvalidAnswer("the args of respond, and of reject if present, must be a non-empty text.")
    return args


def answer_questions_node() -> RoutingNode:
    """Return the node that interrupts once for all elicitations of a turn, and then repeats their tool calls."""

    async def answer_questions(state: AgentState, config: RunnableConfig) -> Command[Any]:
        waiting = state.get("waiting_calls") or []
        questions = [question for call in waiting for question in call["questions"]]
        requests = [_elicitation(each["call"]["name"], question) for each in waiting for question in each["questions"]]
        if is_unattended(config):
            answers = [answer_question(question, HumanResponse("reject")) for question in questions]
        else:
            answers = interrupt_until_valid(requests, lambda responses: _answer_all(questions, responses))
        return Command(update={"waiting_calls": []}, goto=_reissue_calls(waiting, answers))

    return answer_questions


def _answer_all(questions: Sequence[ServerQuestion], responses: Sequence[HumanResponse]) -> list[AnsweredQuestion]:
    problems, answers = [], []
    for number, (question, response) in enumerate(zip(questions, responses, strict=True), 1):
        try:
            answers.append(answer_question(question, response))
        except InvalidAnswer as error:
            problems.append(f"{number}. {error}" if len(questions) > 1 else str(error))
    if problems:
        raise InvalidAnswer("\n".join(problems))
    return answers


def _reissue_calls(waiting: Sequence[WaitingCall], answers: Sequence[AnsweredQuestion]) -> list[Send]:
    remaining = iter(answers)
    tasks = []
    for each in waiting:
        call, new = each["call"], [next(remaining) for _ in each["questions"]]
        tasks.append(Send("tools", [{**call, "answers": [*call.get("answers", []), *new]}]))
    return tasks


def _elicitation(tool: str, question: ServerQuestion) -> HumanInterrupt:
    schema = question["requestedSchema"]
    args = {"message": question["message"], "requestedSchema": schema}
    description = f"{tool} asks: {question['message']}{describe_fields(schema)}"
    # "approve" is a complete answer if every required field has a default.
    return _request(tool, args, description, allow_edit=False, allow_accept=not _problems(_defaults(schema), schema))
