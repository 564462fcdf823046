"""Let the server of a tool ask a person in the middle of a call (MCP elicitation, S-07).

The call ends without a result and its questions wait in the state until the turn's other calls have finished. Then one
interrupt puts all of them, and each call is issued anew with its answers; it may come back with more questions.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.types import Command, Send

from toolweave.nodes.agent_state import AgentState, RoutingNode
from toolweave.nodes.answer_form import answer_to, can_be_empty, described_fields
from toolweave.nodes.human_interrupt import HumanInterrupt, HumanResponse, Unusable, ask, is_unattended
from toolweave.nodes.tool_task import QUESTIONS_KEY, Answer, AskingTool, Question, ToolTask, WaitingCall

MOST_ANSWERS = 20


def with_answers(tool: BaseTool, task: ToolTask, config: RunnableConfig) -> BaseTool:
    """Give a tool the answers that its call has got so far; where nobody can answer, the tool says so itself."""
    if isinstance(tool, AskingTool) and not is_unattended(config):
        return tool.answering(task.get("answers", []))
    return tool


def waiting_for_answers(task: ToolTask, result: ToolMessage | Command[Any]) -> Command[Any] | ToolMessage | None:
    """Keep the call and what is asked in the state, if the tool came back with questions, unless they never end."""
    artifact = result.artifact if isinstance(result, ToolMessage) else None
    questions = artifact.get(QUESTIONS_KEY) if isinstance(artifact, dict) else None
    if not questions:
        return None
    if len(task.get("answers", [])) >= MOST_ANSWERS:
        text = f"Given up: after {MOST_ANSWERS} answers of the user the tool's server still asks for more."
        return ToolMessage(text, name=task["name"], tool_call_id=task["id"], status="error")
    waiting: WaitingCall = {"call": task, "questions": questions}
    return Command(update={"waiting_calls": [waiting]})


def answer_questions_node() -> RoutingNode:
    """Return the node: one interrupt for all questions of the turn, then each of their calls once more."""

    async def answer_questions(state: AgentState, config: RunnableConfig) -> Command[Any]:
        waiting = state.get("waiting_calls") or []
        questions = [question for call in waiting for question in call["questions"]]
        requests = [_request(call, question) for call in waiting for question in call["questions"]]
        if is_unattended(config):
            answers = [answer_to(question, HumanResponse("reject")) for question in questions]
        else:
            answers = ask(requests, lambda given: _answers(questions, given))
        return Command(update={"waiting_calls": []}, goto=_issued_anew(waiting, answers))

    return answer_questions


def _answers(questions: Sequence[Question], given: Sequence[HumanResponse]) -> list[Answer]:
    problems, answers = [], []
    for number, (question, response) in enumerate(zip(questions, given, strict=True), 1):
        try:
            answers.append(answer_to(question, response))
        except Unusable as error:
            problems.append(f"{number}. {error}" if len(questions) > 1 else str(error))
    if problems:
        raise Unusable("\n".join(problems))
    return answers


def _issued_anew(waiting: Sequence[WaitingCall], answers: Sequence[Answer]) -> list[Send]:
    left = iter(answers)
    tasks = []
    for each in waiting:
        call, new = each["call"], [next(left) for _ in each["questions"]]
        tasks.append(Send("tools", [{**call, "answers": [*call.get("answers", []), *new]}]))
    return tasks


def _request(waiting: WaitingCall, question: Question) -> HumanInterrupt:
    schema = question["requestedSchema"]
    name = waiting["call"]["name"]
    return {
        "action_request": {"action": name, "args": {"message": question["message"], "requestedSchema": schema}},
        "config": {
            "allow_ignore": True,
            "allow_respond": True,
            "allow_edit": False,
            "allow_accept": can_be_empty(question),
        },
        "description": f"{name} asks: {question['message']}{described_fields(schema)}",
    }
