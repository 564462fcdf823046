"""The streams of runs that are gone are kept for a while, and not without bound (langgraph_api.md 5.13)."""

import asyncio
from collections.abc import Sequence

from toolweave.runtime.events.log import EndedRunCache
from toolweave.runtime.models import StreamEvent


def events(count: int) -> list[StreamEvent]:
    return [StreamEvent(number, "custom", b"x" * 10, f"1-{number}") for number in range(1, count + 1)]


def found(ended: EndedRunCache, run_id: str) -> Sequence[StreamEvent] | None:
    return kept.events if (kept := ended.find(run_id)) is not None else None


async def test_what_is_kept_is_found() -> None:
    ended = EndedRunCache()
    ended.store("a", events(3), {"owner": "ada"})
    ended.store("b", [], {})
    assert (found(ended, "a"), found(ended, "b"), found(ended, "c")) == (events(3), [], None)


async def test_the_oldest_make_room_for_the_newest() -> None:
    ended = EndedRunCache(max_bytes=100)
    for name in ("a", "b", "c"):
        ended.store(name, events(4), {})
    assert [ended.find(name) is not None for name in ("a", "b", "c")] == [False, True, True]
    ended.store("huge", events(11), {})
    assert [found(ended, name) for name in ("a", "b", "c", "huge")] == [None] * 4
    ended.store("small", events(1), {})
    assert found(ended, "small") == events(1)


async def test_time_makes_forget() -> None:
    ended, later = EndedRunCache(retention_s=0), asyncio.Event()
    ended.store("a", events(1), {})
    asyncio.get_running_loop().call_later(0.01, later.set)
    await asyncio.wait_for(later.wait(), 60)
    assert ended.find("a") is None
