"""A cancelled request or run neither takes a connection of PostgreSQL with it nor goes on."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from tests.fixtures.postgres import PostgresServer
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.postgres.database import Pool, open_pool

SIZE, CALLERS = 2, 8
BOUND_S = 60.0


@pytest.fixture
async def pool(postgres: PostgresServer) -> AsyncIterator[Pool]:
    """Open a pool of two connections."""
    with postgres.fresh_database() as url:
        async with open_pool(PostgresAddress(url), "test", SIZE) as opened:
            yield opened


async def pass_ticks(number: int) -> None:
    """Let the event loop run its other tasks some times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_cancelled_callers_return_their_connections(pool: Pool) -> None:
    chance = random.Random(1)

    async def use_connection() -> None:
        async with pool.connection():
            await pass_ticks(chance.randrange(3))

    async def call() -> None:
        for _ in range(300):
            caller = asyncio.ensure_future(use_connection())
            await pass_ticks(chance.randrange(25))
            if chance.random() < 0.5:
                caller.cancel()
            await asyncio.wait([caller])

    async with asyncio.timeout(BOUND_S):
        await asyncio.gather(*(call() for _ in range(CALLERS)))
        async with pool.connection(), pool.connection():
            pass


@pytest.mark.parametrize("ticks", range(8))
async def test_a_caller_that_is_cancelled_while_it_gets_a_connection_ends(pool: Pool, ticks: int) -> None:
    async def wait_with_connection() -> None:
        async with pool.connection():
            pass
        await asyncio.Event().wait()

    holders = [await pool.getconn() for _ in range(SIZE)]
    caller = asyncio.ensure_future(wait_with_connection())
    while not pool.get_stats().get("requests_waiting"):  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)
    await pass_ticks(10)
    for connection in holders:
        await pool.putconn(connection)
    await pass_ticks(ticks)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(caller, BOUND_S)
