"""The LangGraph stream of a run becomes the events of a chat turn (T-02)."""

from typing import Any

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


def test_without_a_thread_the_first_message_tells_the_generated_one() -> None:
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


def test_an_interrupt_ends_the_turn() -> None:
    waiting = [{"value": "ok?", "id": "i1"}]
    assert turn(META, ("updates", {"__interrupt__": waiting}))[-1] == ("interrupt", {"interrupts": waiting})


def test_a_breakpoint_without_a_question_is_no_interrupt() -> None:
    assert turn(META, ("updates", {"__interrupt__": []}))[-1] == ("error", {"message": NO_ANSWER})


def test_a_failed_run_gives_a_friendly_sentence_and_no_internals() -> None:
    assert turn(META, ("error", {"error": "KeyError", "message": "secret"}))[-1] == ("error", {"message": RUN_FAILED})


def test_an_error_written_for_users_is_passed_on() -> None:
    error = {"error": "ModelError", "message": "The model refused the key."}
    assert turn(META, ("error", error))[-1] == ("error", {"message": "The model refused the key."})


def test_the_iteration_limit_shows_in_the_status() -> None:
    update = {"iteration_cap": {"messages": [ai("Stopped.")], "status": "iteration_limit"}}
    assert turn(META, ("updates", update))[-1] == ("message", {"content": "Stopped.", "status": "iteration_limit"})


def test_content_blocks_and_parallel_updates_are_read() -> None:
    blocks = {"type": "ai", "content": [{"type": "text", "text": "A"}, "B", {"type": "image"}], "tool_calls": []}
    assert turn(META, ("updates", {"n": [None, {"messages": blocks}], "m": None}))[-1][1]["content"] == "AB"
