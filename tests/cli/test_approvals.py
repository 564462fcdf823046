"""Answers to interrupted runs, as the person at the terminal gives them."""

from collections.abc import Iterator
from typing import Any

import pytest

from toolweave.cli.chat import ReadLine, answer_interrupt, answer_interrupts

REQUEST = {"action_request": {"action": "delete_todo", "args": {"id": 3}}}


class Person:
    """Answers in order and remembers the questions."""

    def __init__(self, *answers: str) -> None:
        self._answers: Iterator[str] = iter(answers)
        self.questions: list[str] = []

    def __call__(self, question: str) -> str:
        self.questions.append(question)
        return next(self._answers)


def answer_to(value: Any, *answers: str) -> Any:
    person: ReadLine = Person(*answers)
    return answer_interrupt(value, person)


@pytest.mark.parametrize(
    ("answers", "response"),
    [
        (["approve"], {"type": "accept", "args": None}),
        (["a"], {"type": "accept", "args": None}),
        (["rej"], {"type": "ignore", "args": None}),
        (["respond", "not today"], {"type": "response", "args": "not today"}),
        (["edit", '{"id": 4}'], {"type": "edit", "args": {"action": "delete_todo", "args": {"id": 4}}}),
        (["edit", "four", "[4]", "{}"], {"type": "edit", "args": {"action": "delete_todo", "args": {}}}),
        (["", "re", "what?", " APPROVE "], {"type": "accept", "args": None}),
    ],
)
def test_an_approval_is_answered_in_the_format_of_agent_inbox(answers: list[str], response: dict[str, Any]) -> None:
    assert answer_to([REQUEST], *answers) == [response]
    assert answer_to(REQUEST, *answers) == [response]


def test_a_question_with_several_fields_is_answered_field_by_field() -> None:
    properties = {"zip": {"type": "string"}, "days": {"type": "integer"}, "vip": {"type": "boolean"}, "note": {}}
    question = {"message": "Where to?", "requestedSchema": {"type": "object", "properties": properties}}
    person = Person("respond", "0150", "4", "yes", "")

    [answer] = answer_interrupt([{"action_request": {"action": "plan", "args": question}}], person)

    assert answer == {"type": "response", "args": {"zip": "0150", "days": 4, "vip": True}}
    assert person.questions[1:] == ["zip> ", "days> ", "vip> ", "note> "]


def test_only_what_the_request_allows_can_be_chosen() -> None:
    person = Person("edit", "approve", "reject")
    config = {"allow_accept": False, "allow_edit": False, "allow_respond": False, "allow_ignore": True}
    assert answer_interrupt([{**REQUEST, "config": config}], person) == [{"type": "ignore", "args": None}]
    assert person.questions[0] == "delete_todo(id=3)\nreject> "


def test_several_approvals_of_one_interrupt_are_decided_one_by_one() -> None:
    answers = answer_to([REQUEST, {**REQUEST, "description": "Really?"}], "approve", "reject")
    assert [answer["type"] for answer in answers] == ["accept", "ignore"]


@pytest.mark.parametrize(("text", "value"), [("Bob", "Bob"), ("5", 5), ('{"a": 1}', {"a": 1}), ("", "")])
def test_any_other_question_takes_json_or_text(text: str, value: Any) -> None:
    assert answer_to("What is your name?", text) == value
    assert answer_to({"anything": [1]}, text) == value
    assert answer_to([], text) == value


def test_several_interrupts_are_resumed_by_their_ids() -> None:
    interrupts = [{"id": "i1", "value": "first?"}, {"id": "i2", "value": "second?"}]
    assert answer_interrupts(interrupts, Person("1", "two")) == {"i1": 1, "i2": "two"}
    assert answer_interrupts(interrupts[:1], Person("1")) == 1


def test_a_question_cannot_command_the_terminal() -> None:
    person = Person("x")
    answer_interrupt("clear \x1b[2J now", person)
    assert "\x1b" not in person.questions[0]
