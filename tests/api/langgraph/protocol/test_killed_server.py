"""What subscribers get when the server is killed and started again: no number twice, no stored event lost."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.langgraph.protocol.listening import (
    APP,
    Event,
    contents,
    ended,
    listening,
    on,
    send,
    start,
    stored_events,
)
from tests.fixtures.app_server import AppProcess

LANGGRAPH_JSON = APP
ENDED, GOING, ASKING, GATE = (str(uuid4()) for _ in range(4))


@pytest.mark.requirement("S-05")
async def test_streams_of_threads_continue_where_a_killed_server_has_stopped(app_process: AppProcess) -> None:
    async with httpx.AsyncClient(base_url=app_process.url, timeout=60) as http:
        await asyncio.to_thread(app_process.start)
        async with (
            listening(http, ENDED) as ended_one,
            listening(http, GOING) as going,
            listening(http, ASKING) as asking,
        ):
            await start(http, ENDED, "count", {"n": 1})
            first = await ended_one.run()
            await start(http, ASKING, "ask", {"n": 1})
            interrupted = await asking.until(lambda events: bool(on(events, "input.requested")))
            await start(http, GOING, "gated", {"n": 1, "gate": GATE})
            await http.get(f"/gates/{GATE}/reached")
            before = await going.until(lambda events: len(on(events, "values")) == 2)
            # At once: the last events may not be on the disk.
            await asyncio.to_thread(app_process.kill)
        await asyncio.to_thread(app_process.start)
        await an_ended_run_is_replayed_and_the_next_one_follows(http, first)
        await a_killed_run_continues_with_unused_numbers(http, before)
        await a_question_can_still_be_answered(http, interrupted)


async def an_ended_run_is_replayed_and_the_next_one_follows(http: httpx.AsyncClient, first: list[Event]) -> None:
    assert await stored_events(http, ENDED) == first
    async with listening(http, ENDED, since=first[1]["seq"]) as listener:
        await start(http, ENDED, "count", {"n": 5})
        later = await listener.run(runs=2)
    assert later[:3] == first[2:]
    assert later[3]["seq"] > first[-1]["seq"]
    assert on(later, "values")[-1]["n"] == 7


async def a_killed_run_continues_with_unused_numbers(http: httpx.AsyncClient, before: list[Event]) -> None:
    async with listening(http, GOING, since=before[-1]["seq"]) as listener:
        await http.post(f"/gates/{GATE}/open")
        after = await listener.run()
    assert min(event["seq"] for event in after) > max(event["seq"] for event in before)
    assert contents(after)[-2:] == [
        ("values", [], {"n": 3, "gate": GATE, "log": ["add", "passed", "add"]}),
        ("lifecycle", [], {"event": "completed", "graph_name": "gated"}),
    ]
    same_under_each_number([*before, *after, *await stored_events(http, GOING)])


async def a_question_can_still_be_answered(http: httpx.AsyncClient, interrupted: list[Event]) -> None:
    await ended(http, ASKING, (await http.get(f"/threads/{ASKING}/runs")).json()[0]["run_id"])
    question = on(interrupted, "input.requested")[0]["interrupt_id"]
    async with listening(http, ASKING, since=interrupted[-1]["seq"]) as listener:
        answer = await send(http, ASKING, "input.respond", interrupt_id=question, response="still here")
        assert answer["type"] == "success", answer
        completed = {"event": "completed", "graph_name": "ask"}
        events = await listener.until(lambda events: on(events, "lifecycle")[-1:] == [completed])
    assert on(events, "values")[-1] == {"n": 2, "log": ["asked: still here", "add"]}


def same_under_each_number(events: list[Event]) -> None:
    found: dict[int, Any] = {}
    for event in events:
        assert found.setdefault(event["seq"], event) == event
