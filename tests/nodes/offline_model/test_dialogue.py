"""Conversations: following up, answering questions, several requests in one message."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from tests.nodes.offline_model.judging import calls_after_last_request, converse, offline_model
from tests.nodes.offline_model.requests import Call
from tests.nodes.offline_model.todo_backend import seeded_backend

WHOLE_LIST = ("list_todos", {"status": "all", "limit": 100})


def _calls(*texts: str) -> tuple[Call, ...]:
    return calls_after_last_request(converse(texts, seeded_backend().tools()))


def _answer(*texts: str) -> str:
    return converse(texts, seeded_backend().tools())[-1].text


def test_an_ambiguous_title_leads_to_a_question_and_no_change() -> None:
    messages = converse(["Delete the buy task"], seeded_backend().tools())

    assert calls_after_last_request(messages) == (("search_todos", {"query": "buy"}),)
    assert messages[-1].text.startswith("Which todo do you mean?\n- Buy milk (id 1)\n")


@pytest.mark.parametrize(
    ("reply", "ids"),
    [("the milk one", [1]), ("13", [13]), ("the first one", [1]), ("number 10", [10]), ("all of them", [1, 10, 13])],
)
def test_a_reply_to_the_question_completes_the_request(reply: str, ids: list[int]) -> None:
    assert _calls("Delete the buy task", reply) == tuple(("delete_todo", {"id": number}) for number in ids)


@pytest.mark.parametrize("reply", ["no", "forget it"])
def test_a_withdrawn_request_changes_nothing(reply: str) -> None:
    assert _calls("Delete the buy task", reply) == ()
    assert "leave everything" in _answer("Delete the buy task", reply)


def test_half_of_the_words_are_not_enough_to_delete() -> None:
    texts = ["Delete the flight to Paris"]

    assert all(name != "delete_todo" for name, _ in _calls(*texts))
    assert _answer(*texts).startswith("Do you mean this todo?\n- Book flight to Lisbon (id 12)")
    assert _calls(*texts, "yes") == (("delete_todo", {"id": 12}),)


@pytest.mark.requirement("U-04")
@pytest.mark.parametrize(
    ("text", "unused", "call"),
    [
        ("Delete the buy milk todo tomorrow", "“tomorrow”", ("delete_todo", {"id": 1})),
        ("Take buy milk off my list tomorrow", "“tomorrow”", ("delete_todo", {"id": 1})),
        ("Mark buy bread as done at 5 pm", "“5” and “pm”", ("update_todo", {"id": 13, "status": "completed"})),
        ("Delete the dentist appointment and inform the dentist", "“inform”", ("delete_todo", {"id": 2})),
    ],
)
def test_a_word_that_is_not_in_the_title_is_asked_about_before_a_change(text: str, unused: str, call: Call) -> None:
    assert all(name in ("search_todos", "list_todos") for name, _ in _calls(text))
    assert _answer(text).startswith("Do you mean this todo?\n- ")
    assert _answer(text).endswith(f"I found no {unused} in it.\n(offline model)")
    assert _calls(text, "yes") == (call,)


@pytest.mark.requirement("U-04")
def test_a_reply_names_no_other_thing_if_only_a_word_was_unclear() -> None:
    assert _calls("Delete task 3. Email Anna about it.", "just the first") == ()


@pytest.mark.requirement("U-04")
@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("Delete everything but buy milk", "but"),
        ("Delete everything but the buy tasks", "but"),
        ("Mark everything but buy milk as done", "but"),
        ("Delete all tasks except the dentist appointment", "except"),
        ("Clear my list apart from the dentist appointment", "apart"),
        ("Delete none of my tasks", "none"),
        ("I did not pay the electricity bill", "not"),
        ("Delete buy milk when I am finished", "when"),
        ("Mark everything due today as done", "everything"),
        ("Remove the due date of buy milk", "due"),
        ("Delete task 3. Wait, no.", "Wait, no"),
        ("Move task 3 to tomorrow. Sorry, I mean Friday.", "Sorry, I mean Friday"),
        ("Set task 3 to high priority or medium", "or"),
    ],
)
def test_a_limited_request_is_refused_and_no_reply_lifts_the_limit(text: str, unused: str) -> None:
    assert f"I do not know what to do with “{unused}”" in _answer(text)
    for reply in ("yes", "all of them"):
        assert all(name in ("search_todos", "list_todos") for name, _ in (*_calls(text), *_calls(text, reply)))


@pytest.mark.requirement("U-04")
def test_a_reply_that_excepts_a_thing_does_not_delete_it() -> None:
    assert _calls("Delete the buy task", "all but the first") == ()


def test_deleting_everything_needs_a_yes() -> None:
    assert _calls("Delete all my tasks") == (WHOLE_LIST,)
    assert _answer("Delete all my tasks").startswith("Shall I delete all of these 13 todos?")
    assert _calls("Delete all my tasks", "yes") == tuple(("delete_todo", {"id": number}) for number in range(1, 14))
    assert _calls("Delete all my tasks", "no") == ()


DIALOGUES: list[tuple[list[str], list[Call]]] = [
    (["Unmark task 3 as done"], [("update_todo", {"id": 3, "status": "active"})]),
    (["Delete -1"], [("search_todos", {"query": "1"}), WHOLE_LIST]),
    (["Add a task to buy eggs", "delete it"], [("delete_todo", {"id": 14})]),
    (["Add a task to buy eggs", "make it high priority"], [("update_todo", {"id": 14, "priority": "high"})]),
    (["Show my active tasks", "and the completed ones?"], [("list_todos", {"status": "completed"})]),
    (["Change the priority of task 4", "high"], [("update_todo", {"id": 4, "priority": "high"})]),
    (["Add a task", "water the roses"], [("create_todo", {"title": "Water the roses"})]),
    (["Delete the buy task", "Add a task to buy butter"], [("create_todo", {"title": "Buy butter"})]),
    (["Show my tasks", *["hello"] * 30, "Add a task to buy eggs", "delete it"], [("delete_todo", {"id": 14})]),
    (
        ["I wrote the quarterly report summary, mark the quarterly report as done"],
        [("search_todos", {"query": "quarterly report"}), ("update_todo", {"id": 3, "status": "completed"})],
    ),
    (
        ["delete the kitchn sink task"],
        [("search_todos", {"query": "kitchn sink"}), WHOLE_LIST, ("delete_todo", {"id": 9})],
    ),
    (["Add the tag finance to task 5"], [WHOLE_LIST, ("update_todo", {"id": 5, "tags": ["home", "finance"]})]),
    (
        ["Mark the passport task as done and then show my active tasks"],
        [
            ("search_todos", {"query": "passport"}),
            ("update_todo", {"id": 7, "status": "completed"}),
            ("list_todos", {"status": "active"}),
        ],
    ),
]


@pytest.mark.parametrize(("texts", "calls"), DIALOGUES, ids=[texts[-1] for texts, _ in DIALOGUES])
def test_the_last_message_of_a_conversation_leads_to_these_calls(texts: list[str], calls: list[Call]) -> None:
    assert _calls(*texts) == tuple(calls)


def test_independent_requests_are_called_in_one_message() -> None:
    messages = converse(["Delete task 3 and mark task 4 as done"], seeded_backend().tools())

    assert [len(message.tool_calls) for message in messages if message.type == "ai"] == [2, 0]
    assert calls_after_last_request(messages) == (
        ("delete_todo", {"id": 3}),
        ("update_todo", {"id": 4, "status": "completed"}),
    )


def test_a_listing_waits_for_the_change_before_it() -> None:
    messages = converse(["Add a task to buy cheese and then show me my tasks"], seeded_backend().tools())

    assert [[call["name"] for call in message.tool_calls] for message in messages if message.type == "ai"] == [
        ["create_todo"],
        ["list_todos"],
        [],
    ]
    assert "“Buy cheese” (id 14" in messages[-1].text.split("I found")[1]


def test_a_call_with_edited_arguments_is_not_repeated() -> None:
    messages: list[AnyMessage] = [
        HumanMessage("Add a task to buy milk"),
        AIMessage("", tool_calls=[tool_call(name="create_todo", args={"title": "Buy oat milk"}, id="c1")]),
        ToolMessage('{"status": "success", "data": {"id": 1, "title": "Buy oat milk"}}', tool_call_id="c1"),
    ]

    reply = offline_model().bind_tools(seeded_backend().tools()).invoke(messages)

    assert reply.tool_calls == []
    assert reply.text == "Created the todo “Buy oat milk” (id 1).\n(offline model)"
