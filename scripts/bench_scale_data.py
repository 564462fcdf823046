"""Compare list, search, state and history on 100 000 threads and 1 000 000 events with a small database.

Both databases of a pair have equal pages, so that a ratio shows only what the amount of data costs.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from sqlalchemy import Connection, bindparam, insert, text

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures.postgres import PostgresServer, postgres_server
from toolweave.encryption import data_folder_cipher
from toolweave.runtime.codec import to_json
from toolweave.runtime.models import NewRun, Outcome
from toolweave.runtime.persistence.assistants import AssistantRepository
from toolweave.runtime.persistence.checkpoints.postgres_saver import PostgresRunSaver
from toolweave.runtime.persistence.crons import CronRepository
from toolweave.runtime.persistence.data_folder import open_persistence
from toolweave.runtime.persistence.database import RuntimeDatabase
from toolweave.runtime.persistence.postgres.database import PostgresAddress, open_postgres
from toolweave.runtime.persistence.run_rows import new_thread_row
from toolweave.runtime.persistence.runs import RunEnd, RunRepository
from toolweave.runtime.persistence.schema import assistants, crons, runs, threads, upgrade_schema
from toolweave.runtime.persistence.search import store_labels, use_filters
from toolweave.runtime.persistence.threads import ThreadRepository

THREADS, SMALL, EVENTS_PER_RUN, CHECKPOINTS, WARM_UP, ROUNDS = 100_000, 50, 10, 100, 5, 31
GOAL = 3.0
STARTED = 1_700_000_000_000_000
ASSISTANT = str(UUID(int=1))


@dataclass(frozen=True, slots=True)
class Filled:
    """A database with data."""

    count: int
    database: RuntimeDatabase
    threads: ThreadRepository
    runs: RunRepository
    assistants: AssistantRepository
    crons: CronRepository
    saver: "BaseCheckpointSaver[str]"

    @property
    def newest(self) -> str:
        """Return the thread with the most checkpoints."""
        return thread_id(self.count - 1)


Measured = Callable[[Filled], Awaitable[object]]


def thread_id(number: int) -> str:
    """Return the id of a thread; ids are random, like those of clients."""
    return str(UUID(int=random.Random(number).getrandbits(128), version=4))  # noqa: S311


def owner(filled: Filled) -> str:
    """Return the name of a user with five threads."""
    return f"user-{filled.count // 10}"


def fill(connection: Connection, count: int) -> None:
    """Store threads with one run and its events each, an assistant and a cron per thousand threads."""
    threads_of = [_thread(number, count) for number in range(count)]
    for first in range(0, count, 5_000):
        connection.execute(insert(threads), threads_of[first : first + 5_000])
        connection.execute(insert(runs), [_run(row) for row in threads_of[first : first + 5_000]])
    for row in threads_of:
        store_labels(connection, row["thread_id"], row["created_at"], row["metadata"])  # type: ignore[arg-type]
    numbers = ", ".join(f"({number})" for number in range(1, EVENTS_PER_RUN + 1))
    copied = text(
        f"WITH numbers(n) AS (VALUES {numbers}) INSERT INTO run_events (run_id, seq, event, data)"  # noqa: S608
        " SELECT run_id, n, 'values', :data FROM runs CROSS JOIN numbers"
    )
    connection.execute(copied.bindparams(bindparam("data", b'{"n":1,"text":"some text of an event"}')))
    others = max(count // 1_000, SMALL)
    connection.execute(insert(assistants), [_assistant(number) for number in range(1, others + 1)])
    connection.execute(insert(crons), [_cron(number) for number in range(others)])


def _thread(number: int, count: int) -> dict[str, object]:
    labels = {
        "graph_id": "agent",
        "assistant_id": ASSISTANT,
        "owner": f"user-{number % (count // 5)}",
        "tag": f"tag-{number % 5}",
        # The oldest tenth of the threads.
        "era": f"{number * 10 // count}",
    }
    moment = STARTED + number * 1_000
    values = {"messages": [{"type": "human", "content": f"question {number}"}], "n": number}
    row = new_thread_row(thread_id(number), labels, moment, None, status="idle" if number % 100 else "interrupted")
    return {**row, "state_values": to_json(values), "interrupts": "{}"}


def _run(thread: dict[str, object]) -> dict[str, object]:
    copied = {name: thread[name] for name in ("thread_id", "metadata", "created_at", "updated_at")}
    return {
        **copied,
        "run_id": str(uuid4()),
        "assistant_id": ASSISTANT,
        "graph_id": "agent",
        "status": "success",
        "kwargs": '{"input":{}}',
        "multitask_strategy": "enqueue",
        "temporary": 0,
        "attempt": 1,
    }


def _assistant(number: int) -> dict[str, object]:
    empty = {"config": "{}", "context": "{}", "metadata": "{}", "version": 1}
    times = {"created_at": STARTED + number, "updated_at": STARTED + number}
    return {"assistant_id": str(UUID(int=number)), "graph_id": "agent", "name": f"agent {number}", **empty, **times}


def _cron(number: int) -> dict[str, object]:
    times = {"created_at": STARTED + number, "updated_at": STARTED + number, "next_run_at": STARTED + number}
    return {
        "cron_id": str(uuid4()),
        "assistant_id": ASSISTANT,
        "thread_id": thread_id(number),
        "schedule": "0 * * * *",
        "payload": "{}",
        "metadata": "{}",
        "enabled": 1,
        **times,
    }


async def store_checkpoints(saver: "BaseCheckpointSaver[str]", of_thread: str) -> None:
    """Store the history of a thread."""
    config: RunnableConfig = {"configurable": {"thread_id": of_thread, "checkpoint_ns": ""}}
    for step in range(CHECKPOINTS):
        checkpoint = {**empty_checkpoint(), "channel_values": {"n": step}, "channel_versions": {"n": f"{step:032}.0"}}
        metadata = {"source": "loop", "step": step, "parents": {}}
        config = await saver.aput(config, checkpoint, metadata, {"n": f"{step:032}.0"})  # type: ignore[arg-type]


def copy_checkpoints(connection: Connection) -> None:
    """Store the newest checkpoint of the thread that has some for all other threads."""
    for table, newest in (("checkpoints", "checkpoint_id"), ("checkpoint_blobs", "version")):
        columns = [row[0] for row in connection.execute(text(f"SELECT * FROM {table} LIMIT 0")).cursor.description]  # type: ignore[union-attr]  # noqa: S608
        copied = ", ".join(column for column in columns if column != "thread_id")
        connection.exec_driver_sql(
            f"INSERT INTO {table} (thread_id, {copied}) SELECT threads.thread_id, newest.* FROM threads"  # noqa: S608
            f" CROSS JOIN (SELECT {copied} FROM {table} ORDER BY {newest} DESC LIMIT 1) AS newest"
            " ON CONFLICT DO NOTHING"
        )


@asynccontextmanager
async def filled_sqlite(folder: Path, count: int) -> AsyncIterator[Filled]:
    """Open a data folder with this many threads."""
    async with open_persistence(folder) as found:
        await found.app.write(partial(fill, count=count))
        for number in range(count - 3, count):
            await store_checkpoints(found.checkpointer, thread_id(number))
        yield Filled(count, found.app, found.threads, found.runs, found.assistants, found.crons, found.checkpointer)


@asynccontextmanager
async def filled_postgresql(server: PostgresServer, folder: Path, count: int) -> AsyncIterator[Filled]:
    """Open a database with this many threads, analysed as the server does by itself after some time."""
    cipher = data_folder_cipher(folder, None)
    with server.fresh_database() as url:
        async with open_postgres(PostgresAddress(url), size=4) as database:
            await database.write(partial(upgrade_schema, url))
            await database.write(partial(fill, count=count))
            saver = PostgresRunSaver(database.pool)
            await saver.setup()
            await store_checkpoints(saver, thread_id(count - 1))
            await saver.wait_for_writes()
            await database.write(copy_checkpoints)
            server.execute("VACUUM ANALYZE", url=url)
            yield Filled(
                count,
                database,
                ThreadRepository(database),
                RunRepository(database, cipher=cipher),
                AssistantRepository(database),
                CronRepository(database, cipher),
                saver,
            )


async def _as_user(filled: Filled) -> object:
    with use_filters({"threads": {"owner": owner(filled)}}):
        return await filled.threads.search()


async def _crons_of_user(filled: Filled) -> object:
    with use_filters({"threads": {"owner": owner(filled)}}):
        return await filled.crons.search()


async def _as_member(filled: Filled) -> object:
    with use_filters({"threads": {"$or": [{"owner": owner(filled)}, {"team": {"$contains": "ada"}}]}}):
        return await filled.threads.search(metadata={"graph_id": "agent"})


async def _state(filled: Filled) -> object:
    return await filled.saver.aget_tuple({"configurable": {"thread_id": filled.newest, "checkpoint_ns": ""}})


async def _history(filled: Filled) -> object:
    config: RunnableConfig = {"configurable": {"thread_id": filled.newest, "checkpoint_ns": ""}}
    return [found async for found in filled.saver.alist(config, limit=10)]


MEASURED: dict[str, Measured] = {
    "threads, first page": lambda filled: filled.threads.search(),
    "threads, after 1000 (small: after 30)": lambda f: f.threads.search(offset=1000 if f.count > SMALL else 30),
    "threads of a rare owner": lambda filled: filled.threads.search(metadata={"owner": owner(filled)}),
    "threads of all graphs' one": lambda filled: filled.threads.search(metadata={"graph_id": "agent"}),
    "threads, one in five": lambda filled: filled.threads.search(metadata={"tag": "tag-3"}),
    "threads, two labels": lambda f: f.threads.search(metadata={"tag": "tag-3", "owner": owner(f)}),
    "threads, the oldest tenth": lambda filled: filled.threads.search(metadata={"era": "0"}),
    "threads, an unknown label": lambda filled: filled.threads.search(metadata={"tag": "none"}),
    "threads as a user": _as_user,
    "threads as owner or team member": _as_member,
    "threads by ids": lambda f: f.threads.search(ids=[thread_id(number) for number in range(10)]),
    "threads by a common status": lambda filled: filled.threads.search(status="idle"),
    "threads by a status of 1 %": lambda filled: filled.threads.search(status="interrupted"),
    "threads by an absent status": lambda filled: filled.threads.search(status="error"),
    "threads by thread_id": lambda filled: filled.threads.search(sort_by="thread_id"),
    "threads by status, sorted": lambda filled: filled.threads.search(sort_by="status"),
    "threads by created_at": lambda filled: filled.threads.search(sort_by="created_at"),
    "threads by state_updated_at": lambda filled: filled.threads.search(sort_by="state_updated_at"),
    "count of threads": lambda filled: filled.threads.count(),
    "count of a rare owner": lambda filled: filled.threads.count(metadata={"owner": owner(filled)}),
    "count of one in five": lambda filled: filled.threads.count(metadata={"tag": "tag-3"}),
    "a thread": lambda filled: filled.threads.get(filled.newest),
    "runs of a thread": lambda filled: filled.runs.list(filled.newest),
    "active runs": lambda filled: filled.runs.list_active(),
    "pending runs": lambda filled: filled.runs.list_pending(),
    "expired threads": lambda filled: filled.threads.list_expired(datetime.now(UTC), 100),
    "assistants": lambda filled: filled.assistants.search(),
    "crons": lambda filled: filled.crons.search(),
    "crons of a user": _crons_of_user,
    "due crons": lambda filled: filled.crons.list_due(datetime.fromtimestamp(STARTED / 1e6, UTC)),
    "state": _state,
    "history, ten states": _history,
}


async def compare(small: Filled, large: Filled) -> dict[str, tuple[float, float]]:
    """Return the medians of each operation on both in milliseconds, measured in turn."""
    medians = {}
    for label, work in MEASURED.items():
        taken: dict[int, list[float]] = {small.count: [], large.count: []}
        for turn in range(WARM_UP + ROUNDS):
            for filled in (small, large):
                started = time.perf_counter()
                await work(filled)
                if turn >= WARM_UP:
                    taken[filled.count].append((time.perf_counter() - started) * 1000)
        base, own = (statistics.median(durations) for durations in taken.values())
        medians[label] = (base, own)
        goal = "" if label.startswith("count") else f"goal <= {GOAL:.0f}{'' if own <= GOAL * base else '  MISSED'}"
        print(f"{label:<40}{own:9.2f} ÷ {base:.2f} ms = {own / base:7.2f} x    {goal}")
    return medians


async def time_of_runs(filled: Filled, rounds: int) -> tuple[float, float]:
    """Return the medians of creating and finishing a run in milliseconds: on a new thread, on an old one."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        for durations, of_thread in zip(taken, (str(uuid4()), thread_id(number % filled.count)), strict=True):
            new = NewRun(
                run_id=str(uuid4()),
                thread_id=of_thread,
                assistant_id=ASSISTANT,
                graph_id="agent",
                metadata={},
                kwargs={"input": {}},
                multitask_strategy="enqueue",
                thread_metadata={"owner": "ada"},
                if_not_exists="create",
                created_at=datetime.now(UTC),
            )
            started = time.perf_counter()
            await filled.runs.create_run(new)
            claimed = await filled.runs.claim(new.run_id)
            assert claimed is not None
            outcome = Outcome("success", "idle", b'{"n":1}')
            await filled.runs.finalise(RunEnd(new.run_id, claimed.attempt, outcome))
            durations.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken[0]), statistics.median(taken[1])


async def main(kinds: list[str], count: int, writes: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for kind in kinds:
            if kind == "sqlite":
                small, large = [
                    await stack.enter_async_context(filled_sqlite(folder / str(size), size)) for size in (SMALL, count)
                ]
            else:
                server = stack.enter_context(postgres_server())
                small, large = [
                    await stack.enter_async_context(filled_postgresql(server, folder, size)) for size in (SMALL, count)
                ]
            print(f"{kind}: {count} threads, {count * EVENTS_PER_RUN} events ÷ {SMALL} threads")
            await compare(small, large)
            if writes:
                new, old = await time_of_runs(large, writes)
                print(f"{'a run on a new thread, on an old one':<40}{new:9.3f}, {old:.3f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=["sqlite", "postgresql"])
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--writes", type=int, default=0, help="also time this many runs")
    given = parser.parse_args()
    asyncio.run(main(given.kinds, given.threads, given.writes))
