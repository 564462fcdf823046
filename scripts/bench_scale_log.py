"""A bare event log on PostgreSQL, which scripts/bench_scale.py compares deliveries with.

One process inserts the tokens of all streams in batches of 10 ms and sends one notification per batch; another one
reads what is newer than the last number it has. Run as a program, it is the first of them.
"""

import asyncio
import sys
import time

import psycopg

TABLE = """
CREATE TABLE bare_log (id bigserial PRIMARY KEY, stream int NOT NULL, n int NOT NULL, at float8 NOT NULL, text text)
"""
INSERT = """
INSERT INTO bare_log (stream, n, at, text)
SELECT s, n, at, repeat('x', 100) FROM unnest(%s::int[], %s::int[], %s::float8[]) AS e(s, n, at)
"""
BATCH_S = 0.01


async def publish(url: str, streams: int, tokens: int, rate: int) -> None:
    """Publish the tokens of all streams."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0) as connection:
        unsent: list[tuple[int, int, float]] = []

        async def speak(stream: int) -> None:
            begun = time.monotonic()
            for number in range(tokens):
                await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
                unsent.append((stream, number, time.time()))

        speakers = asyncio.gather(*(speak(stream) for stream in range(streams)))
        while not speakers.done() or unsent:
            await asyncio.sleep(BATCH_S)
            if batch := unsent[:]:
                unsent.clear()
                await connection.execute(INSERT, [list(column) for column in zip(*batch, strict=True)])
                await connection.execute("NOTIFY bare_log")


async def measure(url: str, streams: int, tokens: int, rate: int) -> list[float]:
    """Return the milliseconds from publishing to arrival of each token."""
    delays: list[float] = []
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as listening,
        await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0) as reading,
    ):
        await reading.execute(TABLE)
        await listening.execute("LISTEN bare_log")
        arguments = (__file__, url, str(streams), str(tokens), str(rate))
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
        last = 0
        async for _ in listening.notifies():
            rows = await (
                await reading.execute("SELECT id, stream, n, at, text FROM bare_log WHERE id > %s ORDER BY id", (last,))
            ).fetchall()
            now = time.time()
            delays.extend((now - at) * 1000 for _, _, _, at, _ in rows)
            last = rows[-1][0] if rows else last
            if len(delays) == streams * tokens:
                break
        await process.wait()
        await reading.execute("DROP TABLE bare_log")
    return delays


if __name__ == "__main__":
    asyncio.run(publish(sys.argv[1], *map(int, sys.argv[2:])))
