"""One model turn over the real wire format: ChatOpenAI against a scripted endpoint."""

import asyncio
import json
import sys
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI

from tests.fixtures.loop_clock import pass_time
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire
from tests.fixtures.scripted_model import ScriptedModel, calling
from tests.nodes.model_at import model_at
from toolweave.errors import ModelError
from toolweave.nodes.model_endpoint import NO_KEY
from toolweave.nodes.model_turn import answer_status, model_turn


async def answer_to(turns: Sequence[WireTurn], timeout_s: str = "600") -> AIMessage:
    with openai_wire(turns) as server:
        return await model_turn(model_at(server, timeout_s), [HumanMessage("hi")], {})


@pytest.mark.requirement("D-3")
async def test_tool_calls_split_inside_their_json_are_put_together() -> None:
    calls = (
        WireCall("create_todo", '{"title": "Buy \\"fresh\\" milk", "tags": ["ä", "b"]}', "call_a"),
        WireCall("list_todos", "{}", "call_b"),
        WireCall("ping", "", "call_c"),
    )

    answer = await answer_to([WireTurn(text="Let me see.", calls=calls, piece=3)])

    assert answer.text == "Let me see."
    assert [(call["name"], call["args"], call["id"]) for call in answer.tool_calls] == [
        ("create_todo", {"title": 'Buy "fresh" milk', "tags": ["ä", "b"]}, "call_a"),
        ("list_todos", {}, "call_b"),
        ("ping", {}, "call_c"),
    ]
    assert answer_status(answer) == "done"


@pytest.mark.parametrize("arguments", ['{"title": "Buy mil', "[1, 2]", "null", '{"title": "\\ud83d"}'])
async def test_arguments_that_are_not_a_whole_json_object_are_never_guessed(arguments: str) -> None:
    answer = await answer_to([WireTurn(calls=(WireCall("t", arguments),), finish_reason="length")])

    assert answer.tool_calls == []
    assert [(call["name"], call["args"]) for call in answer.invalid_tool_calls] == [("t", arguments)]


async def test_characters_that_the_stream_cuts_in_half_are_whole_in_the_answer() -> None:
    answer = await answer_to([WireTurn(text="a \ud83d\ude00 and \ud83d", piece=1)])

    assert answer.text == "a 😀 and \ufffd"


@pytest.mark.parametrize(("reason", "status"), [("stop", "done"), ("content_filter", "content_filter")])
async def test_the_finish_reason_becomes_the_status(reason: str, status: str) -> None:
    answer = await answer_to([WireTurn(text="Once upon", finish_reason=reason)])

    assert answer_status(answer) == status


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (WireTurn(status=400, error="maximum context length"), "status 400.*maximum context length"),
        (WireTurn(status=401), "rejected the API key"),
        (WireTurn(status=403), "refused access"),
        (WireTurn(status=404), "TOOLWEAVE_MODEL"),
        (WireTurn(status=429), "quota"),
        (WireTurn(status=500), "status 500"),
        (WireTurn(text="Once upon a time", cut_after=2), "broke the connection"),
        (WireTurn(text="Once upon a time", finish_reason="none"), "before it was complete"),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
async def test_a_failing_endpoint_is_explained_in_a_model_error(turn: WireTurn, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        await answer_to([turn])


@pytest.mark.requirement("D-3")
@pytest.mark.parametrize("status", [400, 401])
async def test_a_key_that_the_endpoint_quotes_is_not_in_the_error(status: int) -> None:
    with pytest.raises(ModelError) as raised:
        await answer_to([WireTurn(status=status, error=f"your key is {NO_KEY.get_secret_value()}")])

    assert NO_KEY.get_secret_value() not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("silent_after", [0, 2])
async def test_a_silent_endpoint_ends_the_turn_at_the_model_timeout(silent_after: int) -> None:
    with openai_wire([WireTurn(text="Once upon a time", silent_after=silent_after)]) as server:
        turn = asyncio.create_task(model_turn(model_at(server, "30"), [HumanMessage("hi")], {}))
        assert await asyncio.to_thread(server.requested.wait, 60)
        while not turn.done():
            pass_time(1)
            await asyncio.sleep(0)
        with pytest.raises(ModelError, match="TOOLWEAVE_MODEL_TIMEOUT_S"):
            await turn

        assert await asyncio.to_thread(server.left.wait, 60), "the connection is closed, the endpoint can stop working"


async def test_a_cancelled_turn_leaves_the_endpoint() -> None:
    with openai_wire([WireTurn(text="Once upon a time", silent_after=1)]) as server:
        turn = asyncio.ensure_future(model_turn(model_at(server), [HumanMessage("hi")], {}))
        assert await asyncio.to_thread(server.requested.wait, 60)
        # Python 3.11's wait_for loses a cancellation that meets the answer it waits for.
        while not turn.done():
            turn.cancel()
            await asyncio.wait({turn}, timeout=2)
        with pytest.raises(asyncio.CancelledError):
            await turn

        assert await asyncio.to_thread(server.left.wait, 60)


@pytest.mark.parametrize(
    ("error", "problem"),
    [(KeyError("choices"), "KeyError: 'choices'"), (ModelError("quite specific"), "^quite specific$")],
)
async def test_an_exception_of_a_model_becomes_a_model_error_unless_it_is_one(error: Exception, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        await model_turn(ScriptedModel(turns=[error]), [HumanMessage("hi")], {})


async def test_a_model_that_cannot_stream_is_called() -> None:
    scripted = calling(("t", {"a": 1}))

    answer = await model_turn(ScriptedModel(turns=[scripted], disable_streaming=True), [HumanMessage("hi")], {})

    assert (type(answer), answer.tool_calls) == (AIMessage, scripted.tool_calls)


class Losing(ScriptedModel):
    """A model whose client drops a cancellation that comes with a piece of its answer, and then waits for the next."""

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        yield ChatGenerationChunk(message=AIMessageChunk(content="It begins"))
        await asyncio.Event().wait()


async def test_a_cancellation_that_a_client_drops_ends_the_turn_at_the_next_piece() -> None:
    turn = asyncio.create_task(model_turn(Losing(turns=[]), [HumanMessage("hi")], {}))

    async with asyncio.timeout(60):
        await asyncio.gather(turn, return_exceptions=True)

    assert turn.cancelled()


LONG = json.dumps({"text": 'line \\ "é"\n' * 2_000, "lines": list(range(500))})


@contextmanager
def at_most_parsed(characters: int) -> Iterator[None]:
    """Fail as soon as more characters than these have been given to the JSON parser."""
    left = characters

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code is json.JSONDecoder.raw_decode.__code__:
            left -= len(frame.f_locals["s"])
            if left < 0:
                sys.setprofile(None)
                # Not an Exception: LangChain catches those.
                pytest.fail(f"more than {characters} characters were parsed")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.mark.requirement("R-03")
@pytest.mark.parametrize(
    ("arguments", "piece"),
    [
        (LONG, 15_000),
        (LONG, 1_000),
        (LONG[: LONG.rindex("\\u00e9") + 4], 15_000),
        ("{" + LONG, 15_000),
        ("x" + LONG, 15_000),
        (LONG.replace('", "', '"; "'), 15_000),
    ],
    ids=["two chunks", "many chunks", "cut in an escape", "malformed at once", "no JSON at all", "malformed later"],
)
async def test_long_arguments_in_few_chunks_are_parsed_in_linear_time(arguments: str, piece: int) -> None:
    turn = WireTurn(calls=(WireCall("write", arguments),), piece=piece)
    with openai_wire([turn]) as server:
        model = model_at(server)
        with at_most_parsed(200 * len(LONG)):
            answer = await model_turn(model, [HumanMessage("hi")], {})

    if arguments == LONG:
        assert [call["args"] for call in answer.tool_calls] == [json.loads(LONG)]
    else:
        assert [call["args"] for call in answer.invalid_tool_calls] == [arguments]


@pytest.mark.requirement("R-03")
async def test_the_chunks_that_clients_see_are_those_of_langchain() -> None:
    calls = (WireCall("t", '{"a": [1, {"b": "x\\u00e9"}], "c": tru}', "call_a"), WireCall("u", '{"d": 1}', "call_b"))
    turn = WireTurn(text="Let me see.", calls=calls, piece=7)

    async def streamed(model: BaseChatModel) -> list[dict[str, Any]]:
        return [chunk.model_dump(exclude={"id"}) async for chunk in model.astream("hi")]

    with openai_wire([turn, turn]) as server:
        ours = await streamed(model_at(server))
        theirs = await streamed(ChatOpenAI(model="m", base_url=server.base_url, api_key=NO_KEY))
    assert ours == theirs
