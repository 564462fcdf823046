"""Listen to a thread by the protocol, and send it commands, as a client on the wire does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

Event = dict[str, Any]
APP = Path(__file__).parent / "app" / "langgraph.json"
OFFICIAL = ("values", "messages", "lifecycle", "input", "tools")
BOUND_S = 60.0


class Heard:
    """The events that have come so far; `until` waits for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ended = False
        self._news = asyncio.Condition()

    async def add(self, event: Event) -> None:
        async with self._news:
            self.events.append(event)
            self._news.notify_all()

    async def end(self) -> None:
        async with self._news:
            self.ended = True
            self._news.notify_all()

    async def until(self, happened: Callable[[list[Event]], bool]) -> list[Event]:
        async with asyncio.timeout(BOUND_S), self._news:
            await self._news.wait_for(lambda: happened(self.events))
            return list(self.events)

    async def until_ended(self) -> list[Event]:
        async with asyncio.timeout(BOUND_S), self._news:
            await self._news.wait_for(lambda: self.ended)
            return list(self.events)

    async def run(self, run_id: str | None = None, runs: int = 1) -> list[Event]:
        """Wait for the ends of runs; return the events."""
        return await self.until(lambda events: sum(ends_run(event, run_id) for event in events) >= runs)


def ends_run(event: Event, run_id: str | None = None) -> bool:
    root = event["method"] == "lifecycle" and event["params"]["namespace"] == []
    ended = root and event["params"]["data"]["event"] in ("completed", "failed", "interrupted")
    return ended and (run_id is None or run_id in event["event_id"])


@asynccontextmanager
async def listening(
    http: httpx.AsyncClient, thread_id: str, channels: Iterable[str] = OFFICIAL, **body: Any
) -> AsyncIterator[Heard]:
    """Hear a thread's events over SSE while the block runs; the stream is open when it begins."""
    listener, opened = Heard(), asyncio.Event()
    reading = asyncio.create_task(_read(http, thread_id, {"channels": list(channels), **body}, listener, opened))
    opening = asyncio.create_task(opened.wait())
    try:
        await asyncio.wait((reading, opening), return_when=asyncio.FIRST_COMPLETED, timeout=BOUND_S)
        if reading.done():
            reading.result()
        yield listener
    finally:
        reading.cancel()
        opening.cancel()
        await asyncio.gather(reading, opening, return_exceptions=True)


async def _read(
    http: httpx.AsyncClient, thread_id: str, body: dict[str, Any], listener: Heard, opened: asyncio.Event
) -> None:
    async with http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        opened.set()
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                await listener.add(json.loads(line[6:]))
    await listener.end()


async def stored_events(
    http: httpx.AsyncClient, thread_id: str, channels: Iterable[str] = OFFICIAL, **params: Any
) -> list[Event]:
    """Give all stored events of a thread: a WebSocket subscription is sent them before its response."""
    events: list[Event] = []
    async with socket(http, thread_id) as client:
        await client.send(as_command("subscription.subscribe", channels=list(channels), **params))
        async with asyncio.timeout(BOUND_S):
            async for frame in client:
                message = json.loads(frame)
                if message["type"] != "event":
                    assert message["result"]["replayed_events"] == len(events), message
                    return events
                events.append(message)
    raise AssertionError("the connection ended before the answer")


@asynccontextmanager
async def socket(http: httpx.AsyncClient, thread_id: str) -> AsyncIterator[ClientConnection]:
    url = str(http.base_url.copy_with(scheme="ws", path=f"/threads/{thread_id}/stream/events"))
    async with connect(url) as client:
        yield client


def as_command(method: str, number: int = 7, **params: Any) -> str:
    return json.dumps({"id": number, "method": method, "params": params})


async def send(http: httpx.AsyncClient, thread_id: str, method: str, **params: Any) -> dict[str, Any]:
    answer = await http.post(f"/threads/{thread_id}/commands", content=as_command(method, **params))
    assert answer.status_code == 200, answer.text
    contents: dict[str, Any] = answer.json()
    assert contents["id"] == 7
    return contents


async def start(http: httpx.AsyncClient, thread_id: str, graph: str, given: Any, **params: Any) -> str:
    """Start a run and give its id."""
    contents = await send(http, thread_id, "run.start", assistant_id=graph, input=given, **params)
    assert contents["type"] == "success", contents
    run_id: str = contents["result"]["run_id"]
    return run_id


async def new_thread(http: httpx.AsyncClient) -> str:
    thread_id: str = (await http.post("/threads", json={})).json()["thread_id"]
    return thread_id


async def run_whole(
    http: httpx.AsyncClient, graph: str, given: Any, channels: Iterable[str] = OFFICIAL
) -> tuple[str, list[Event]]:
    """Run a graph on a thread of its own; return the thread and the events."""
    thread_id = await new_thread(http)
    await ended(http, thread_id, await start(http, thread_id, graph, given))
    return thread_id, await stored_events(http, thread_id, channels)


async def ended(http: httpx.AsyncClient, thread_id: str, run_id: str) -> None:
    await http.get(f"/threads/{thread_id}/runs/{run_id}/join")


def contents(events: Iterable[Event]) -> list[tuple[str, list[str], Any]]:
    """Give method, names of the namespace's steps, and data of each event."""
    return [
        (event["method"], [step.partition(":")[0] for step in event["params"]["namespace"]], event["params"]["data"])
        for event in events
    ]


def on(events: Iterable[Event], method: str) -> list[Any]:
    """Give the data of the events of a method."""
    return [event["params"]["data"] for event in events if event["method"] == method]
