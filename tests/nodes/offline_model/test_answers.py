"""How the model answers results, failures and requests that need no tool."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from tests.nodes.offline_model.judging import converse, offline_model
from tests.nodes.offline_model.other_tools import OTHER_TOOLS
from tests.nodes.offline_model.todo_backend import TodoBackend, seeded_backend

SMALL_TALK = ("hello", "thanks!", "how are you?", "what can you do?", "Why is the sky blue?", "", "👍", "Wie geht's?")


def _answer_to_result(
    name: str, arguments: dict[str, Any], content: str | list[str | dict[str, Any]], *, failed: bool = False
) -> str:
    """Let the model describe one result of a call, without any tool bound."""
    messages = [
        HumanMessage("do it"),
        AIMessage("", tool_calls=[tool_call(name=name, args=arguments, id="c1")]),
        ToolMessage(content, tool_call_id="c1", status="error" if failed else "success"),
    ]
    return _unmarked(offline_model().invoke(messages).text)


def _answer(*texts: str) -> str:
    return _unmarked(converse(texts, seeded_backend().tools())[-1].text)


def _unmarked(answer: str) -> str:
    """Return an answer without the mark that every answer of the model has (U-04)."""
    assert answer.endswith("\n(offline model)")
    return answer.removesuffix("\n(offline model)")


@pytest.mark.requirement("O-03")
def test_an_action_is_confirmed_with_the_title() -> None:
    assert _answer("Add an urgent task to buy milk") == "Created the todo “Buy milk” (id 14, priority high)."
    assert _answer("Mark task 1 as done") == "Updated the todo “Buy milk” (id 1, status completed)."
    assert _answer("Delete task 1") == "Deleted the todo “Buy milk” (id 1)."


@pytest.mark.requirement("O-03")
def test_found_things_are_listed_one_a_line() -> None:
    assert _answer("Show my completed tasks").split("\n") == [
        "I found 2 todos (status completed):",
        "- “Water the plants” (id 6, status completed, priority low, tags home)",
        "- “Team meeting notes” (id 8, status completed, priority medium, tags work)",
    ]
    assert _unmarked(converse(["Show my tasks"], TodoBackend().tools())[-1].text) == "I found no todos."


@pytest.mark.requirement("O-03")
@pytest.mark.requirement("O-04")
@pytest.mark.parametrize("text", SMALL_TALK)
def test_small_talk_calls_no_tool_and_the_answer_names_the_offline_model(text: str) -> None:
    for tools in (seeded_backend().tools(), OTHER_TOOLS, []):
        _, answer = converse([text], tools)
        assert answer.text.endswith("\n(offline model)")


@pytest.mark.requirement("O-04")
@pytest.mark.requirement("U-04")
@pytest.mark.parametrize(
    "texts",
    [
        ["Add a task"],
        ["Delete the unicorn task"],
        ["Delete the buy task"],
        ["Delete the buy task", "no"],
        ["Show my tasks"],
        ["Delete task 3 and delete task 99"],
    ],
)
def test_every_answer_names_the_offline_model_once(texts: list[str]) -> None:
    assert "(offline model)" not in _answer(*texts)


@pytest.mark.requirement("U-04")
def test_a_refusal_lists_the_five_tools_that_fit_best() -> None:
    tools = [*OTHER_TOOLS, *seeded_backend().tools()]

    _, *lines = _unmarked(converse(["I like emails"], tools)[-1].text).split("\n")

    assert lines[0] == "- send_email: Send an email message to a recipient."
    assert lines[5:] == ["… and 8 more."]


@pytest.mark.parametrize("text", ["Add a task to buy milk", "Show my tasks", "Delete task 3", "Mark milk as done"])
def test_a_failure_is_reported_and_never_confirmed_as_done(text: str) -> None:
    backend = seeded_backend()
    backend.down = True

    messages = converse([text], backend.tools())

    assert messages[-1].text.startswith("I could not ")
    assert "The todo server is not available at the moment. Please try again later." in messages[-1].text
    assert not any(word in messages[-1].text for word in ("Created", "Updated", "Deleted", "I found"))
    assert sum(len(message.tool_calls) for message in messages if isinstance(message, AIMessage)) == 1


def test_a_call_without_a_result_is_not_confirmed_as_done() -> None:
    messages = [
        HumanMessage("Add a task to buy milk"),
        AIMessage("", tool_calls=[tool_call(name="create_todo", args={"title": "Buy milk"}, id="c1")]),
    ]

    answer = offline_model().bind_tools(seeded_backend().tools()).invoke(messages)

    assert isinstance(answer, AIMessage)
    assert not answer.tool_calls
    assert "I do not know whether it was done" in answer.text


def test_the_answer_reports_a_good_and_a_bad_result() -> None:
    assert _answer("Delete task 3 and delete task 99").split("\n\n") == [
        "Deleted the todo “Write quarterly report” (id 3).",
        (
            "I could not delete the todo: There is no todo with the id 99. "
            "Find the right id with list_todos or search_todos."
        ),
    ]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("plain words", "plain words"),
        ([{"type": "text", "text": "first"}, {"type": "text", "text": "second"}], "first\nsecond"),
        ('{"temperature": 20, "unit": "C"}', "This is the result:\n- temperature: 20\n- unit: C"),
        ('["a", "b"]', "I found 2 results:\n- a\n- b"),
        ("[]", "The result is empty."),
        ("", "Done; the tool returned no further answer."),
        (json.dumps({"status": "success", "data": {"ok": True}}), "yes"),
    ],
)
def test_a_result_of_any_form_is_described(content: str | list[str | dict[str, Any]], answer: str) -> None:
    assert _answer_to_result("measure", {}, content) == answer


@pytest.mark.parametrize(
    ("content", "failed"),
    [
        ('{"status": "error", "error": {"type": "not_found", "message": "No such file."}}', False),
        ("No such file.", True),
    ],
)
def test_an_error_is_recognised(content: str, failed: bool) -> None:
    assert _answer_to_result("read_file", {"path": "x"}, content, failed=failed) == (
        "I could not get an answer from read_file: No such file."
    )


def test_a_huge_result_is_cut_and_its_length_reported() -> None:
    answer = _answer_to_result("fetch", {"url": "https://example.com"}, "word " * 200_000)

    assert len(answer) < 5000
    assert answer.endswith(("(1000000 characters in all)", "(999999 characters in all)"))


def test_a_long_list_is_cut_and_the_rest_counted() -> None:
    data = [{"id": number, "title": f"Todo {number}"} for number in range(80)]

    answer = _answer_to_result("list_todos", {}, json.dumps({"status": "success", "data": data}))

    assert answer.startswith("I found 80 todos:\n- “Todo 0” (id 0)\n")
    assert answer.endswith("- “Todo 49” (id 49)\n… and 30 more.")


def test_a_message_read_only_in_part_says_so() -> None:
    messages = converse(["Add a task to buy milk. " + "It is nice there. " * 1000], seeded_backend().tools())

    assert messages[-1].text.startswith("Created the todo “Buy milk” (id 14).")
    assert "I read only the first part of your message" in messages[-1].text


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("Add a weekly recurring task to water the plants", "weekly"),
        ("Delete task 3 quarterly", "quarterly"),
        ("Delete task 3 tomorrow", "tomorrow"),
        ('Delete task 3 "for Anna"', "Anna"),
        ("Delete task 3, not task 4", "not"),
        ("Delete task 3. Email Anna about it.", "Email Anna about it"),
        ("Delete task 3 and archive it", "archive it"),
        ("Add milk to Anna's list", "to Anna's list"),
        ("Add milk to her shopping list", "to her shopping list"),
        ("Add buy milk but not today", "not"),
        ("Delete all but task 3", "but"),
        ("Delete all of them but the first", "but"),
        ("Set priority of all tasks but task 3 to high", "but"),
        ("Delete nothing from task 3", "nothing"),
        ("Delete the title of task 3", "title"),
        ("Delete task 3 if it is done", "if"),
        ("Delete task 3 only if it is completed", "only"),
        ("Delete task 3. Only if it is completed.", "Only if it is completed"),
        ("Mark task 3 as done if task 4 is done", "if"),
        ("If task 4 is done delete task 3", "If"),
        ("If task 4 is done, delete task 3", "If task 4 is done"),
        ("Unless I am wrong, delete task 3", "Unless I am wrong"),
        ("When it rains, delete task 3", "When it rains"),
        ('Delete task 3 "hello"', "hello"),
    ],
)
@pytest.mark.requirement("U-04")
def test_a_change_with_words_that_no_parameter_takes_is_a_question(text: str, unused: str) -> None:
    backend = seeded_backend()

    messages = converse([text], backend.tools())

    assert not any(message.tool_calls for message in messages if isinstance(message, AIMessage))
    assert f"“{unused}”" in messages[-1].text
    assert messages[-1].text.endswith("(offline model)")
