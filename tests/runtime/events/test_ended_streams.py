"""Events of runs whose threads are deleted stay in memory for a while, within a limit (langgraph_api.md 5.13)."""

import asyncio
from collections.abc import Sequence

from toolweave.runtime.events.log import EndedRunCache
from toolweave.runtime.models import StreamEvent


def events(count: int) -> list[StreamEvent]:
    return [StreamEvent(number, "custom", b"x" * 10, f"1-{number}") for number in range(1, count + 1)]


def found(ended: EndedRunCache, run_id: str) -> Sequence[StreamEvent] | None:
    return cached.events if (cached := ended.find(run_id)) is not None else None


async def test_the_events_of_the_oldest_runs_are_removed_at_the_limit() -> None:
    ended = EndedRunCache(max_bytes=100)
    for name in ("a", "b", "c"):
        ended.store(name, events(4), {})
    assert [ended.find(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    ended.store("huge", events(11), {})
    assert [found(ended, name) for name in ("a", "b", "c", "huge")] == [None] * 4
    ended.store("small", events(1), {})
    assert found(ended, "small") == events(1)


async def test_events_are_removed_after_their_retention() -> None:
    ended, later = EndedRunCache(retention_s=0), asyncio.Event()
    ended.store("a", events(1), {})
    asyncio.get_running_loop().call_later(0.01, later.set)
    await asyncio.wait_for(later.wait(), 60)
    assert ended.find("a") is None
