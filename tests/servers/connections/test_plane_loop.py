import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from tests.servers.connections.peers import BOUND_S, call, failure_kind, log_records, misbehaving, plane_of
from toolweave.errors import ServerUnavailable
from toolweave.servers.connections.plane import PlaneLoop


async def elsewhere(work: Callable[[], Awaitable[object]]) -> object:
    """Await something on another event loop, on another thread."""

    async def main() -> object:
        return await work()

    return await asyncio.to_thread(asyncio.run, main())


async def test_work_runs_on_the_loop_it_is_carried_to_and_its_result_and_error_come_back() -> None:
    home, here = PlaneLoop(), asyncio.get_running_loop()

    async def work(fail: bool) -> object:
        if fail:
            raise KeyError("lost")
        return asyncio.get_running_loop()

    assert await home.run(work(False)) is here
    assert await elsewhere(lambda: home.run(work(False))) is here
    with pytest.raises(KeyError, match="lost"):
        await elsewhere(lambda: home.run(work(True)))


async def test_a_caller_that_is_cancelled_on_another_loop_cancels_its_work_here() -> None:
    home, begun, cancelled = PlaneLoop(), threading.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def leave() -> None:
        calling = asyncio.create_task(home.run(work()))
        await asyncio.to_thread(begun.wait, BOUND_S)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    await elsewhere(leave)
    async with asyncio.timeout(BOUND_S):
        await cancelled.wait()


async def test_a_closed_loop_takes_nothing_more_from_others_and_waits_for_what_it_has() -> None:
    home, begun, end = PlaneLoop(), asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await end.wait()
        return "done"

    early = asyncio.create_task(elsewhere(lambda: home.run(work())))
    await begun.wait()
    home.close()
    with pytest.raises(ServerUnavailable, match="being closed"):
        await elsewhere(lambda: home.run(work()))
    draining = asyncio.create_task(home.drain(BOUND_S))
    await asyncio.sleep(0)
    assert not draining.done()
    end.set()
    await draining
    assert await early == "done"


async def test_draining_ends_at_its_limit() -> None:
    home, begun = PlaneLoop(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    stuck = asyncio.create_task(elsewhere(lambda: home.run(work())))
    await begun.wait()
    home.close()
    async with asyncio.timeout(BOUND_S):
        await home.drain(0.01)
        with pytest.raises(asyncio.CancelledError):
            await stuck


async def test_callers_on_other_loops_are_answered_while_the_plane_closes_and_the_breaker_does_not_open() -> None:
    are_open = threading.Event()
    with log_records() as records:
        async with plane_of(misbehaving(timeout_s=600)) as plane:

            async def many() -> list[str | None]:
                calling = [asyncio.create_task(call(plane, "sleep", seconds=600)) for _ in range(20)]
                await call(plane, "echo")
                are_open.set()
                results = await asyncio.gather(*calling)
                late = [await call(plane, "echo") for _ in range(20)]
                return [failure_kind(result) for result in (*results, *late)]

            many_callers = asyncio.create_task(elsewhere(many))
            await asyncio.to_thread(are_open.wait, BOUND_S)
        assert await many_callers == ["transport"] * 40
    assert not [record for record in records if "breaker" in record["extra"]]
