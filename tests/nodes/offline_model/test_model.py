"""The offline model as a LangChain chat model: binding, choice, streaming, structured output."""

from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.nodes.offline_model.judging import converse, offline_model
from tests.nodes.offline_model.other_tools import OTHER_TOOLS, read_file
from tests.nodes.offline_model.todo_backend import TodoBackend, seeded_backend
from toolweave.nodes.model_turn import model_usage
from toolweave.nodes.offline_model.model import OfflineChatModel
from toolweave.nodes.script.script_file import VideoScript

REQUESTS = ("Add a task to buy milk #home", "Show my tasks", "hello", "Delete task 1 and task 2", "")


def _bound(**options: Any) -> Runnable[Any, AIMessage]:
    return offline_model().bind_tools(seeded_backend().tools(), **options)


def _same(one: AIMessage, other: AIMessage) -> bool:
    compared = ("content", "tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata")
    return all(getattr(one, name) == getattr(other, name) for name in compared)


@pytest.mark.requirement("O-01")
@pytest.mark.parametrize("text", REQUESTS)
def test_the_same_conversation_always_gets_the_same_message(text: str) -> None:
    replies = [_bound().invoke([SystemMessage("Be brief."), HumanMessage(text)]) for _ in range(3)]

    assert all(_same(reply, replies[0]) for reply in replies)


@pytest.mark.requirement("O-01")
@pytest.mark.parametrize("text", REQUESTS)
async def test_the_text_is_streamed_by_word_and_the_chunks_add_up_to_the_invoked_message(text: str) -> None:
    invoked = _bound().invoke(text)
    chunks = list(_bound().stream(text))
    async_chunks = [chunk async for chunk in _bound().astream(text)]
    awaited = await _bound().ainvoke(text)

    assert invoked.usage_metadata is not None
    assert invoked.usage_metadata["output_tokens"] > 0
    assert model_usage("write", offline_model(), invoked)["model"] == "offline"
    for received in (chunks, async_chunks):
        whole = received[0]
        for chunk in received[1:]:
            whole = whole + chunk  # type: ignore[assignment]
        assert isinstance(whole, AIMessageChunk)
        assert _same(whole, invoked)
        assert len({chunk.id for chunk in received}) == 1
        assert all(len(chunk.text.split()) <= 1 for chunk in received)
    assert _same(awaited, invoked)


def test_message_ids_are_those_of_langchain_and_call_ids_differ_within_a_conversation() -> None:
    messages = converse(["Add a task to buy milk", "Add a task to buy milk"], seeded_backend().tools())
    replies = [message for message in messages if isinstance(message, AIMessage)]
    calls = [call["id"] for reply in replies for call in reply.tool_calls]

    assert len({reply.id for reply in replies}) == len(replies)
    assert len(set(calls)) == len(calls) == 2


def test_tomorrow_is_the_day_after_that_of_the_clock() -> None:
    model = OfflineChatModel(clock=lambda: datetime(2030, 12, 31, 23, 0, tzinfo=UTC))

    reply = model.bind_tools(seeded_backend().tools()).invoke("Add a task to sleep tomorrow")

    assert reply.tool_calls[0]["args"] == {"title": "Sleep", "due_date": "2031-01-01"}


@pytest.mark.requirement("O-01")
def test_a_tool_is_chosen_among_those_given_and_none_is_made_up() -> None:
    todo, text = seeded_backend().tools(), "delete task 4"

    assert offline_model().bind_tools(todo).invoke(text).tool_calls[0]["name"] == "delete_todo"
    assert offline_model().bind_tools(todo[:2]).invoke(text).tool_calls == []
    assert offline_model().bind_tools(OTHER_TOOLS).invoke(text).tool_calls == []
    assert offline_model().bind_tools([]).invoke(text).tool_calls == []
    assert offline_model().invoke(text).tool_calls == []


@pytest.mark.requirement("O-01")
@pytest.mark.parametrize(
    ("text", "choice", "names"),
    [
        ("hello", "auto", []),
        ("read notes.txt", "none", []),
        *(("hello", choice, ["get_current_time"]) for choice in ("any", "required", True)),
        ("hello", "read_file", ["read_file"]),
    ],
)
def test_tool_choice_requires_or_forbids_a_call(text: str, choice: Any, names: list[str]) -> None:
    reply = offline_model().bind_tools(OTHER_TOOLS, tool_choice=choice).invoke(text, stop=["offline model"])

    assert [call["name"] for call in reply.tool_calls] == names
    assert "offline model" not in reply.text


def test_a_choice_that_is_not_bound_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'fly', which is not bound"):
        _bound(tool_choice="fly")


def test_a_required_call_is_not_made_twice_in_a_turn() -> None:
    model = offline_model().bind_tools([read_file], tool_choice="any")
    messages: list[Any] = [HumanMessage("read notes.txt")]
    first = model.invoke(messages)
    messages += [first, ToolMessage("the notes", tool_call_id=first.tool_calls[0]["id"])]

    assert model.invoke(messages).text == "the notes\n(offline model)"


def test_one_call_at_a_time_when_parallel_calls_are_off() -> None:
    model = _bound(parallel_tool_calls=False)
    messages: list[Any] = [HumanMessage("Delete task 1 and task 2")]
    first = model.invoke(messages)
    messages += [first, ToolMessage("{}", tool_call_id=first.tool_calls[0]["id"])]
    second = model.invoke(messages)

    assert [[call["args"] for call in reply.tool_calls] for reply in (first, second)] == [[{"id": 1}], [{"id": 2}]]


class Reminder(BaseModel):
    """Something to remember."""

    title: str
    priority: Literal["low", "medium", "high"] = "medium"
    tags: list[str] = Field(default_factory=list)
    due_date: str | None = None


class Trip(TypedDict):
    """A trip."""

    city: str
    days: int


@pytest.mark.requirement("O-01")
@pytest.mark.requirement("O-02")
def test_a_class_is_filled_from_the_text() -> None:
    structured = offline_model().with_structured_output

    assert structured(Trip).invoke("3 days in Rome") == {"city": "Rome", "days": 3}
    assert structured(Reminder).invoke("Call the bank tomorrow, urgent #money") == Reminder(
        title="Call the bank", priority="high", tags=["money"], due_date="2026-03-05"
    )


@pytest.mark.requirement("O-01")
def test_nested_and_empty_input_still_gives_a_valid_object() -> None:
    for text in ("", "A script about volcanoes. They are hot.", "x" * 100_000):
        for schema in (VideoScript, Reminder):
            assert isinstance(offline_model().with_structured_output(schema).invoke(text), schema)


def test_a_message_of_several_blocks_is_read_by_its_text() -> None:
    content: list[str | dict[Any, Any]] = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "Add a task to buy milk"},
    ]

    assert converse(["hi"], TodoBackend().tools())[-1].text.endswith("(offline model)")
    assert _bound().invoke([HumanMessage(content)]).tool_calls[0]["args"] == {"title": "Buy milk"}
