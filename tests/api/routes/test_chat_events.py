"""The LangGraph stream of a run becomes the events of a chat turn (T-02)."""

from typing import Any

import pytest

from toolweave.api.routes.chat import NO_ANSWER, RUN_FAILED, STREAM_END, ChatEventTranslator

META = ("metadata", {"run_id": "r1", "attempt": 1})


def turn(*parts: tuple[str, Any], thread_id: str | None = "t1") -> list[tuple[str, dict[str, Any]]]:
    events = ChatEventTranslator(thread_id)
    return [event for name, data in (*parts, (STREAM_END, None)) for event in events.translate(name, data)]


def ai(content: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"type": "ai", "content": content, "tool_calls": list(calls)}


def test_a_turn_with_a_tool_call_gives_all_its_events_in_order() -> None:
    call = {"id": "c1", "name": "create_todo", "args": {"title": "Buy milk"}}
    tool = {"type": "tool", "tool_call_id": "c1", "name": "create_todo", "status": "success", "content": "{}"}
    assert turn(
        META,
        ("updates", {"call_model": {"messages": [ai("", call)]}}),
        ("updates", {"tools": {"messages": [tool]}}),
        ("messages", [{"type": "AIMessageChunk", "content": "Done"}, {}]),
        ("updates", {"call_model": {"messages": [ai("Done")], "status": "success"}}),
    ) == [
        ("metadata", {"run_id": "r1", "thread_id": "t1"}),
        ("tool_call", call),
        ("tool_result", {"id": "c1", "name": "create_todo", "status": "success", "content": "{}"}),
        ("token", {"text": "Done"}),
        ("message", {"content": "Done", "status": "success"}),
    ]


def test_without_a_thread_the_first_message_names_the_generated_one() -> None:
    events = turn(
        META,
        ("messages", [{"type": "human", "content": "Hello"}, {"thread_id": "made"}]),
        ("updates", {"call_model": {"messages": [ai("Hi")]}}),
        thread_id=None,
    )
    assert events == [
        ("metadata", {"run_id": "r1", "thread_id": "made"}),
        ("message", {"content": "Hi", "status": "success"}),
    ]


WAITING = [{"value": "ok?", "id": "i1"}]
USER_ERROR = {"error": "ModelError", "message": "The model refused the key."}
LIMIT = {"messages": [ai("Stopped.")], "status": "iteration_limit"}
BLOCKS = {"type": "ai", "content": [{"type": "text", "text": "A"}, "B", {"type": "image"}], "tool_calls": []}


@pytest.mark.parametrize(
    ("name", "data", "last_event"),
    [
        ("updates", {"__interrupt__": WAITING}, ("interrupt", {"interrupts": WAITING})),
        ("updates", {"__interrupt__": []}, ("error", {"message": NO_ANSWER})),
        ("error", {"error": "KeyError", "message": "secret"}, ("error", {"message": RUN_FAILED})),
        ("error", USER_ERROR, ("error", {"message": "The model refused the key."})),
        ("updates", {"cap": LIMIT}, ("message", {"content": "Stopped.", "status": "iteration_limit"})),
        (
            "updates",
            {"n": [None, {"messages": BLOCKS}], "m": None},
            ("message", {"content": "AB", "status": "success"}),
        ),
    ],
    ids=["interrupt", "breakpoint", "internal error", "error for users", "iteration limit", "content blocks"],
)
def test_the_last_event_of_a_turn_shows_its_outcome(name: str, data: Any, last_event: tuple[str, Any]) -> None:
    assert turn(META, (name, data))[-1] == last_event
