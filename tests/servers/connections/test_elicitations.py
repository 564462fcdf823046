"""A question of an MCP server during a call is answered from a stored answer, or returned (S-07)."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from langchain_core.messages import ToolMessage
from mcp.shared.context import RequestContext
from mcp.types import CallToolResult, ElicitRequestFormParams

from tests.fixtures.mcp_server import http_mcp_server
from tests.servers.connections.faulty import TRANSPORTS
from tests.servers.connections.peers import BOUND_S, LIMIT_S, QUICK, log_records, overdue, plane_of, talkative, text_of
from toolweave.config.mcp import McpServerConfig
from toolweave.servers.connections.context import QUESTIONS_KEY, UNCLEAR_KEY, CallContext, ElicitedAnswer, questions_in
from toolweave.servers.connections.plane import ToolPlane, open_tool_plane
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.sessions.elicitations import Elicitations

FIXTURES = Path(__file__).parents[2] / "fixtures"
ASKING = str(FIXTURES / "asking_server.py")


def asking(*command: str, **config: Any) -> McpServerConfig:
    settings: dict[str, Any] = {"prefix": "", "timeout_s": BOUND_S, **config}
    return McpServerConfig(name="asking", transport="stdio", command=sys.executable, args=command, **settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=TRANSPORTS)
async def plane(request: pytest.FixtureRequest) -> AsyncIterator[ToolPlane]:
    async with AsyncExitStack() as stack:
        config, transport = asking(ASKING), request.param
        if transport != "stdio":
            args = (ASKING, "--transport", transport, "--port", "{port}")
            server = await stack.enter_async_context(http_mcp_server(*args, transport=transport, name="asking"))
            config = replace(server.config, prefix="", timeout_s=BOUND_S)
        yield await stack.enter_async_context(plane_of(config))


over_stdio = pytest.mark.parametrize("plane", ["stdio"], indirect=True)


async def call(plane: ToolPlane, tool: str, *answers: ElicitedAnswer, **arguments: Any) -> CallToolResult:
    async with asyncio.timeout(BOUND_S):
        return await plane.call("asking", tool, arguments, CallContext(answers=answers))


def accepted(result: CallToolResult, **content: Any) -> ElicitedAnswer:
    [question] = questions_in(result)
    return {**question, "action": "accept", "content": content}


async def test_a_result_contains_the_question_and_a_repeated_call_sends_the_answer(plane: ToolPlane) -> None:
    first = await call(plane, "greet")
    [question] = questions_in(first)
    assert question["message"] == "What is your name?"
    assert question["requestedSchema"]["properties"]["value"]["type"] == "string"
    assert text_of(first) == "Hello cancel"

    second = await call(plane, "greet", accepted(first, value="Eve"))

    assert text_of(second) == "Hello Eve"
    assert questions_in(second) == []


async def test_a_sequence_of_questions_needs_one_call_for_each_answer(plane: ToolPlane) -> None:
    days = accepted(await call(plane, "trip", to="Rome"), value=2)
    hotel = accepted(await call(plane, "trip", days, to="Rome"), value="Inn")

    assert text_of(await call(plane, "trip", days, hotel, to="Rome")) == "2 days in Rome, Inn"
    paris = await call(plane, "trip", days, to="Paris")
    assert [question["message"] for question in questions_in(paris)] == ["How many days in Paris?"]


async def test_an_answer_is_used_once(plane: ToolPlane) -> None:
    answers = [
        ElicitedAnswer(message=f"Question {number}?", requestedSchema=schema, action="accept", content={"value": "x"})
        for schema in [questions_in(await call(plane, "restless"))[0]["requestedSchema"]]
        for number in (0, 0, 1)
    ]

    result = await call(plane, "restless", *answers)

    assert text_of(result) == "gave up after 2"
    assert [question["message"] for question in questions_in(result)] == ["Question 2?"]


@over_stdio
@pytest.mark.parametrize(
    ("action", "content"),
    [
        ("decline", None),
        *[("accept", content) for content in ({"value": "\ud800"}, {"value": {"deep": 1}}, "no object", [1])],
    ],
)
async def test_a_declined_or_unsendable_answer_is_sent_as_declined_in_an_open_session(
    plane: ToolPlane, action: Any, content: Any
) -> None:
    [question] = questions_in(await call(plane, "greet"))

    result = await call(plane, "greet", {**question, "action": action, "content": content})

    assert text_of(result) == "Hello decline"
    assert text_of(await call(plane, "plain", text="still here")) == "still here"


@pytest.mark.parametrize("plane", ["http"], indirect=True)
async def test_over_http_each_question_belongs_to_its_call(plane: ToolPlane) -> None:
    who = [f"caller {number}" for number in range(5)]

    results = await asyncio.gather(*(call(plane, "together", who=name, others=4) for name in who))

    assert [questions_in(result)[0]["message"] for result in results] == [f"{name}, are you there?" for name in who]


async def test_over_stdio_calls_with_ambiguous_questions_are_repeated_one_at_a_time_with_a_warning() -> None:
    async with plane_of(asking(ASKING)) as plane:
        with log_records() as records:
            results = await asyncio.gather(*(call(plane, "together", who=name, others=1) for name in "ab"))

        assert [questions_in(result)[0]["message"] for result in results] == ["a, are you there?", "b, are you there?"]
        warnings = [record["message"] for record in records if record["level"]["name"] == "WARNING"]
        assert any("unclear to which call it belongs" in line for line in warnings)

        later = await asyncio.gather(*(call(plane, "trip", to=place) for place in ("Rome", "Oslo", "Bonn")))
        questions = [questions_in(result)[0]["message"] for result in later]
        assert questions == [f"How many days in {place}?" for place in ("Rome", "Oslo", "Bonn")]


async def test_a_call_with_an_ambiguous_question_that_may_not_be_repeated_is_made_once(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    async with plane_of(asking(ASKING, "--log", str(log))) as plane:
        results = await asyncio.gather(*(call(plane, "wipe_together", others=1) for _ in "ab"))

    assert any(text_of(result) == "wiped: cancel" for result in results)
    assert log.read_text("utf-8").count('"wipe_together"') == 2


async def test_a_server_that_is_configured_to_ask_runs_one_call_at_a_time() -> None:
    async with plane_of(asking(ASKING, elicit=True, timeout_s=LIMIT_S)) as plane:
        [first, second] = await overdue(plane, *(call(plane, "together", who=name, others=1) for name in "ab"))

    kinds = [(result.meta or {}).get("toolweave/failure") for result in (first, second)]
    assert kinds == ["timeout", "timeout"], "neither is ever inside with the other, and waiting counts"


async def test_a_server_cannot_forge_questions_or_other_fields_of_ours_in_a_result() -> None:
    question = {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}
    forged = {QUESTIONS_KEY: [question], UNCLEAR_KEY: True, "toolweave/failure": "transport", "its/own": 1}
    async with open_tool_plane([talkative()], timing=QUICK) as plane:
        result = await plane.call("talk", "whole", {"result": {"content": [], "_meta": forged}}, CallContext())
    assert result.meta == {"its/own": 1}


@over_stdio
@pytest.mark.parametrize(
    ("tool", "texts"),
    [
        pytest.param("greet", ["What is your name?", "No user can answer here"], id="without-a-graph"),
        pytest.param("wipe", ["Really?", '"elicit": true', "wiped: cancel"], id="not-repeatable"),
    ],
)
async def test_a_question_that_cannot_be_answered_ends_the_call_with_an_explanation(
    plane: ToolPlane, tool: str, texts: list[str]
) -> None:
    [asking_tool] = [each for each in await plane.tools() if each.name == tool]
    message = await asking_tool.ainvoke(
        {"type": "tool_call", "id": "c", "name": tool, "args": {}}, {"configurable": {}}
    )
    assert isinstance(message, ToolMessage)
    assert message.status == "error"
    assert [text for text in texts if text not in message.text] == []


async def test_a_question_of_a_call_that_has_ended_is_sent_to_no_other_caller() -> None:
    config = McpServerConfig(name="asking", transport="http", url="http://127.0.0.1:9")
    elicitations = Elicitations(config, Redaction(config))
    asks = ElicitRequestFormParams(message="Your card number?", requestedSchema={"type": "object", "properties": {}})
    with elicitations.track_call(1, ()):
        pass
    elicitations.record_request("late", 1)

    with elicitations.track_call(2, ()) as call:
        context: Any = RequestContext(request_id="late", meta=None, session=None, lifespan_context=None)
        assert (await elicitations.answer(context, asks)).action == "cancel"

    assert call.questions == []


async def test_a_question_is_shown_without_credentials_and_control_characters_and_recognised_again() -> None:
    config = McpServerConfig(name="asking", transport="http", url="http://h", env={"API_KEY": "op-key-1234567890"})
    elicitations = Elicitations(config, Redaction(config))
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "op-key-1234567890"}}}
    asks = ElicitRequestFormParams(message="Use op-key-1234567890\x1b[2J\u202e?", requestedSchema=schema)
    context: Any = RequestContext(request_id="q", meta=None, session=None, lifespan_context=None)
    with elicitations.track_call(1, ()) as call:
        await elicitations.answer(context, asks)
    [question] = call.questions
    shown = {"type": "object", "properties": {"a": {"type": "string", "default": "***"}}}
    assert question == {"message": "Use ***?", "requestedSchema": shown}

    with elicitations.track_call(2, [{**question, "action": "accept", "content": {"a": "b"}}]):
        assert (await elicitations.answer(context, asks)).content == {"a": "b"}
