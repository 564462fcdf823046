"""The streams of runs that are gone are kept for a while, and not without bound (langgraph_api.md 5.13)."""

import asyncio
from collections.abc import Sequence

from toolweave.runtime.events.log import EndedStreams
from toolweave.runtime.models import StreamEvent


def events(count: int) -> list[StreamEvent]:
    return [StreamEvent(number, "custom", b"x" * 10, f"1-{number}") for number in range(1, count + 1)]


def found(ended: EndedStreams, run_id: str) -> Sequence[StreamEvent] | None:
    return kept.events if (kept := ended.find(run_id)) is not None else None


async def test_what_is_kept_is_found() -> None:
    ended = EndedStreams()
    ended.keep("a", events(3), {"owner": "ada"})
    ended.keep("b", [], {})
    assert (found(ended, "a"), found(ended, "b"), found(ended, "c")) == (events(3), [], None)


async def test_the_oldest_make_room_for_the_newest() -> None:
    ended = EndedStreams(most_bytes=100)
    for name in ("a", "b", "c"):
        ended.keep(name, events(4), {})
    assert [ended.find(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    ended.keep("huge", events(11), {})
    assert [found(ended, name) for name in ("a", "b", "c", "huge")] == [None] * 4
    ended.keep("small", events(1), {})
    assert found(ended, "small") == events(1)


async def test_time_makes_forget() -> None:
    ended, later = EndedStreams(seconds=0), asyncio.Event()
    ended.keep("a", events(1), {})
    asyncio.get_running_loop().call_later(0.01, later.set)
    await asyncio.wait_for(later.wait(), 60)
    assert ended.find("a") is None
