"""Interrupt a run for a person: to approve tool calls before they run, or to answer what a tool's server asks (S-07).

Requests and answers have the form of Agent Inbox: HumanInterrupt and HumanResponse. An answer that cannot be used is
never a failure: the same requests are put again, with what was wrong in their description.

A call whose server asks something (MCP elicitation) ends without a result, and its questions wait in the state until
the turn's other calls have finished. Then one interrupt puts all of them, and each call is issued anew.
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

from toolweave.nodes.agent import AgentState, RoutingNode, is_unattended
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
from toolweave.schema import Schema

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
    """One request to a person, as Agent Inbox and Agent Chat UI show it."""

    action_request: dict[str, Any]
    config: dict[str, bool]
    description: str


@dataclass(frozen=True, slots=True)
class HumanResponse:
    """One answer, in the words of our API; `args` is as given."""

    kind: ResponseKind
    args: Any = None


class InvalidAnswer(ValueError):
    """An answer that does not say what to do; the text tells the person why."""


def interrupt_until_valid(requests: Sequence[HumanInterrupt], interpret: Callable[[list[HumanResponse]], T]) -> T:
    """Interrupt the run until the answers make sense, one for each request; return what they mean.

    Args:
        requests: what is asked.
        interpret: makes sense of as many answers; raises `Unusable` where it cannot.
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
    given = [answer] if expected == 1 and isinstance(answer, dict | str) else answer
    if not isinstance(given, list) or len(given) != expected:
        raise InvalidAnswer(f"resume with a list of {expected} answers, in request order; each is {_RESPONSE_FORMAT}.")
    return [_parse_response(item) for item in given]


def _parse_response(item: object) -> HumanResponse:
    written = {"type": item} if isinstance(item, str) else item
    if not isinstance(written, dict):
        raise InvalidAnswer(f"an answer is {_RESPONSE_FORMAT}.")
    word = written.get("type")
    if not isinstance(word, str) or word not in _KIND_BY_TYPE:
        raise InvalidAnswer(f"its type is {str(word)[:50]!r}; an answer is {_RESPONSE_FORMAT}.")
    return HumanResponse(_KIND_BY_TYPE[word], written.get("args"))


MAX_SHOWN_FIELDS = 20
MAX_CHOICES_CHARS = 500
_PLAIN_VALUE: TypeAdapter[object] = TypeAdapter(
    str | bool | int | float | list[str] | None, config=ConfigDict(strict=True, allow_inf_nan=False)
)
_BOOLEAN_WORDS = {"yes": True, "true": True, "no": False, "false": False}


def answer_question(question: ServerQuestion, response: HumanResponse) -> AnsweredQuestion:
    """Read one answer: approve takes the defaults, respond gives an object or its text, reject declines.

    Raises:
        Unusable: the answer does not fit the schema, or is an edit.
    """
    if response.kind == "reject":
        return {**question, "action": "decline", "content": None}
    if response.kind == "edit":
        raise InvalidAnswer("there is nothing to edit: respond with the answer.")
    given = {} if response.kind == "approve" else _parse_content(response.args, _fields(question["requestedSchema"]))
    content = _defaults(question["requestedSchema"]) | given
    if problems := _problems(content, question["requestedSchema"]):
        raise InvalidAnswer("; ".join(problems))
    return {**question, "action": "accept", "content": content}


def describe_fields(schema: Mapping[str, Any]) -> str:
    """List the fields of an answer for a person to read, each on a line."""
    required = schema.get("required")
    lines = []
    for name, field in list(_fields(schema).items())[:MAX_SHOWN_FIELDS]:
        needed = "" if isinstance(required, list) and name in required else ", optional"
        words = field.get("description") or field.get("title") or ""
        choices = f" of {_json(field['enum'])[:MAX_CHOICES_CHARS]}" if isinstance(field.get("enum"), list) else ""
        lines.append(f"\n- {name} ({field.get('type', 'any')}{choices}{needed}) {words}".rstrip())
    return "".join(lines)


def _fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {name: field for name, field in known.items() if isinstance(field, dict)}


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: field["default"] for name, field in _fields(schema).items() if "default" in field}


def _parse_content(args: Any, fields: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Take an object as it is, a text as JSON for one, and a plain text as the value of the only field."""
    read = _json_or_text(args) if isinstance(args, str) else args
    if isinstance(read, dict):
        return read
    if len(fields) != 1:
        raise InvalidAnswer(f"respond with an object with the fields {', '.join(fields) or '(none)'}.")
    [(name, field)] = fields.items()
    if not isinstance(args, str):
        return {name: args}
    if field.get("type") == "boolean":
        return {name: _BOOLEAN_WORDS.get(args.strip().lower(), args)}
    return {name: read if field.get("type") in ("integer", "number", "array") else args}


def _problems(content: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    fields = _fields(schema)
    unknown = [f"there is no field {name[:100]!r}" for name in content if name not in fields]
    unsendable = [f"{name} is no plain value" for name, value in content.items() if not _is_plain_value(value)]
    if unknown or unsendable:
        return [*unknown, *unsendable]
    try:
        return Schema(schema).problems(dict(content))
    except ValueError:
        # No schema at all: the server judges what it gets.
        return []


def _is_plain_value(value: object) -> bool:
    """Say whether MCP can carry a value: text, number, truth value, nothing, or a list of texts."""
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
"""What becomes of a call: it runs, perhaps edited, or this message is its result."""


def approve_node(catalog: ToolCatalog) -> RoutingNode:
    """Return the node: one interrupt for all calls of the turn that need approval, then a task for each call to run."""

    async def approve(state: AgentState, config: RunnableConfig) -> Command[Any]:
        asked = state["messages"][-1]
        meant = state.get("to_approve", {})
        gated = [call for call in requested_calls(asked) if call["id"] in meant]
        if is_unattended(config):
            verdicts: list[CallDecision] = [result_message(call, NO_APPROVER_TEXT) for call in gated]
        else:
            tools = await catalog.tools()
            verdicts = interrupt_until_valid(
                [_approval_request(call["name"], args_dict(call["args"])) for call in gated],
                lambda answers: [
                    _decide(call, answer, meant[call["id"]], tools) for call, answer in zip(gated, answers, strict=True)
                ],
            )
        decided = iter(verdicts)
        return _dispatch_calls(
            asked, [next(decided) if call in gated else tool_task(call) for call in requested_calls(asked)]
        )

    return approve


def _dispatch_calls(asked: AnyMessage, outcome: Sequence[CallDecision]) -> Command[Any]:
    """Send each call that may run to the tool node; the message that asked for it then says what really runs."""
    tasks = [each for each in outcome if not isinstance(each, ToolMessage)]
    messages: list[AnyMessage] = [each for each in outcome if isinstance(each, ToolMessage)]
    goto: list[Send] | str = [Send("tools", [task]) for task in tasks] or "call_model"
    return Command(update={"messages": [*with_executed_calls(asked, tasks), *messages], "to_approve": {}}, goto=goto)


def _approval_request(tool: str, arguments: dict[str, Any]) -> HumanInterrupt:
    return _request(tool, arguments, f"The agent wants to call {tool} with {_arguments_text(arguments)}")


def _arguments_text(arguments: Mapping[str, Any]) -> str:
    """Write arguments for a person to read; of long ones each a part, so that none hides behind another."""
    whole = _json(arguments)
    if len(whole) <= MAX_ARGUMENTS_CHARS:
        return whole
    most = max(MIN_PART_CHARS, MAX_ARGUMENTS_CHARS // len(arguments))
    parts = [f"{_cut(_json(name), most)}: {_cut(_json(value), most)}" for name, value in arguments.items()]
    more = f" and {len(parts) - MAX_SHOWN_ARGUMENTS} more" if len(parts) > MAX_SHOWN_ARGUMENTS else ""
    return f"{{{', '.join(parts[:MAX_SHOWN_ARGUMENTS])}{more}}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def _decide(call: RequestedCall, answer: HumanResponse, meant: str, tools: Sequence[BaseTool]) -> CallDecision:
    match answer.kind:
        case "approve":
            return tool_task(call, approved_tool=meant)
        case "edit":
            name, arguments = _parse_edit(call, answer.args)
            tool = meant if name == call["name"] else _own_tool_name(name, tools)
            return tool_task({**call, "name": name, "args": arguments}, approved_tool=tool)
        case "respond":
            return result_message(call, _require_text(answer.args), status="success")
        case "reject":
            reason = _require_text(answer.args) if answer.args else ""
            return result_message(call, f"The user rejected this call; it was not executed. {reason}".rstrip())


def _parse_edit(call: RequestedCall, args: Any) -> tuple[str, dict[str, Any]]:
    """Read an edit: an action with its arguments, or the arguments alone."""
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
        raise InvalidAnswer("the args of respond, and of reject if there are any, are a text.")
    return args


def answer_questions_node() -> RoutingNode:
    """Return the node: one interrupt for all questions of the turn, then each of their calls once more."""

    async def answer_questions(state: AgentState, config: RunnableConfig) -> Command[Any]:
        waiting = state.get("waiting_calls") or []
        questions = [question for call in waiting for question in call["questions"]]
        requests = [_elicitation(each["call"]["name"], question) for each in waiting for question in each["questions"]]
        if is_unattended(config):
            answers = [answer_question(question, HumanResponse("reject")) for question in questions]
        else:
            answers = interrupt_until_valid(requests, lambda given: _answer_all(questions, given))
        return Command(update={"waiting_calls": []}, goto=_reissue_calls(waiting, answers))

    return answer_questions


def _answer_all(questions: Sequence[ServerQuestion], given: Sequence[HumanResponse]) -> list[AnsweredQuestion]:
    problems, answers = [], []
    for number, (question, response) in enumerate(zip(questions, given, strict=True), 1):
        try:
            answers.append(answer_question(question, response))
        except InvalidAnswer as error:
            problems.append(f"{number}. {error}" if len(questions) > 1 else str(error))
    if problems:
        raise InvalidAnswer("\n".join(problems))
    return answers


def _reissue_calls(waiting: Sequence[WaitingCall], answers: Sequence[AnsweredQuestion]) -> list[Send]:
    left = iter(answers)
    tasks = []
    for each in waiting:
        call, new = each["call"], [next(left) for _ in each["questions"]]
        tasks.append(Send("tools", [{**call, "answers": [*call.get("answers", []), *new]}]))
    return tasks


def _elicitation(tool: str, question: ServerQuestion) -> HumanInterrupt:
    schema = question["requestedSchema"]
    args = {"message": question["message"], "requestedSchema": schema}
    description = f"{tool} asks: {question['message']}{describe_fields(schema)}"
    # A mere yes answers it if no field is required that has no default.
    return _request(tool, args, description, allow_edit=False, allow_accept=not _problems(_defaults(schema), schema))
