"""Let several processes execute the runs of one database: claims, heartbeats, and what dead processes leave behind.

A process is alive as long as its row in `processes` has a heartbeat younger than its lease, by the database's clock.
"""

import asyncio
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from toolweave.runtime.codec import to_micros, utc_now
from toolweave.runtime.models import Run, Watch
from toolweave.runtime.persistence import run_rows as sql
from toolweave.runtime.persistence.database import PostgresAddress, dispatch, lock, notify
from toolweave.runtime.persistence.events import CONTROL_TOPIC, RUN_TOPIC, insert_follow
from toolweave.runtime.persistence.postgres.database import PostgresDatabase
from toolweave.runtime.persistence.schema import execute_on_postgresql, runs

# How long a stream that joins a run waits for the worker to store the run's events.
ACKNOWLEDGEMENT_S, ACKNOWLEDGEMENT_CHECK_S = 2.0, 0.005
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
RUN_COLUMN_NAMES = ", ".join(f"runs.{column.name}" for column in runs.c)
REGISTER = f"""
INSERT INTO processes (process_id, role, host, pid, slots, started_at, heartbeat_at, lease)
VALUES (%(process_id)s, %(role)s, %(host)s, %(pid)s, %(slots)s, {NOW}, {NOW}, %(lease)s) ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants
BEAT = f"UPDATE processes SET heartbeat_at = {NOW} WHERE process_id = %(process_id)s RETURNING process_id"  # noqa: S608
LIVE_PROCESSES = f"SELECT count(*) FROM processes WHERE heartbeat_at + lease > {NOW}"  # noqa: S608
LEAVE = "DELETE FROM processes WHERE process_id = %(process_id)s"
# The most urgent run that may start. Rows that another process is about to change are skipped.
CLAIM_NEXT = f"""
UPDATE runs SET status = 'running', attempt = attempt + 1, process_id = %(process_id)s, updated_at = %(now)s,
    watch = watch & 15 | (watch & {Watch.EVENTS:d}) * {Watch.ACKNOWLEDGED // Watch.EVENTS:d}
WHERE run_id = (
    SELECT r.run_id FROM runs AS r JOIN threads AS t USING (thread_id)
    WHERE r.status = 'pending' AND r.promoted = 1 AND t.claim IS NULL
    AND NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.thread_id = r.thread_id AND o.status = 'running')
    ORDER BY r.urgency, r.seq LIMIT 1 FOR UPDATE OF r, t SKIP LOCKED
)
AND EXISTS (SELECT 1 FROM processes WHERE process_id = %(process_id)s)
RETURNING {RUN_COLUMN_NAMES}
"""  # noqa: S608 - constants
WAITS_FOR_START = """
SELECT 1 FROM runs AS r JOIN threads AS t USING (thread_id)
WHERE r.status = 'pending' AND r.promoted = 1 AND t.claim IS NULL
AND NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.thread_id = r.thread_id AND o.status = 'running') LIMIT 1
"""
MAX_CLAIM_ATTEMPTS, CLAIM_RETRY_S = 20, 0.005
# A process that has missed a heartbeat itself declares none dead: the database may have been away for all of them.
DELETE_DEAD = f"""
DELETE FROM processes WHERE heartbeat_at + lease < {NOW} AND EXISTS (
    SELECT 1 FROM processes AS own
    WHERE own.process_id = %(process_id)s AND own.heartbeat_at + own.lease * 2 / 3 > {NOW}
)
RETURNING process_id
"""  # noqa: S608 - constants
ABANDONED_RUNS = """
SELECT run_id FROM runs WHERE status = 'running'
AND (process_id IS NULL OR process_id NOT IN (SELECT process_id FROM processes))
"""
ABANDONED_RUN = f"SELECT process_id FROM runs WHERE run_id IN ({ABANDONED_RUNS}) AND run_id = %(run_id)s"  # noqa: S608
ABANDONED_CLAIMS = """
SELECT thread_id FROM threads WHERE claim IS NOT NULL
AND (claimed_by IS NULL OR claimed_by NOT IN (SELECT process_id FROM processes))
"""
RELEASE_CLAIM = "UPDATE threads SET claim = NULL, claimed_by = NULL WHERE thread_id = %(of_thread)s"
REQUEUE = """
UPDATE runs SET status = 'pending', promoted = 0, process_id = NULL, updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'running' AND process_id IS NOT DISTINCT FROM %(process_id)s RETURNING thread_id
"""
# A crashed process may have used numbers that it did not store.
SKIP_THREAD_SEQS = """
UPDATE thread_sequences SET last_seq = (last_seq / 1000000 + 1) * 1000000 WHERE thread_id = %(thread_id)s
"""
CLAIMED_RUNS = "SELECT run_id FROM runs WHERE status = 'running' AND process_id = %(process_id)s"
UNPROMOTED = """
SELECT DISTINCT r.thread_id FROM runs AS r JOIN threads AS t USING (thread_id)
WHERE r.status = 'pending' AND r.promoted = 0 AND t.claim IS NULL AND coalesce(r.not_before, 0) <= %(now)s
AND NOT EXISTS (
    SELECT 1 FROM runs AS o
    WHERE o.thread_id = r.thread_id AND (o.status = 'running' OR (o.status = 'pending' AND o.promoted = 1))
)
LIMIT 200
"""
NEXT_DUE = "SELECT min(not_before) FROM runs WHERE status = 'pending' AND not_before > %(now)s"
# Runs that may start but have no job: their job was lost with the process that had fetched it. One process counts at a
# time; the others get no row.
MISSING_JOBS = """
SELECT (SELECT count(*) FROM runs WHERE status = 'pending' AND promoted = 1)
    - (SELECT count(*) FROM procrastinate_jobs WHERE status = 'todo')
WHERE pg_try_advisory_xact_lock(hashtextextended('toolweave jobs', 0))
"""
DELETE_STALE_JOBS = """
DELETE FROM procrastinate_jobs AS j WHERE status = 'doing' AND NOT EXISTS (
    SELECT 1 FROM procrastinate_workers AS w
    WHERE w.id = j.worker_id AND w.last_heartbeat > now() - make_interval(secs => 60)
)
"""
STATES = "SELECT run_id, status, attempt, cancel, cancel_reason, watch FROM runs WHERE run_id = ANY(%(run_ids)s)"
WATCH_RUN = """
UPDATE runs SET watch = watch | %(flags)s WHERE run_id = %(run_id)s AND status IN ('pending', 'running')
RETURNING watch, (SELECT coalesce(max(seq), 0) FROM run_events AS e WHERE e.run_id = runs.run_id) AS last_seq
"""
ACKNOWLEDGE = f"UPDATE runs SET watch = watch | {Watch.ACKNOWLEDGED:d} WHERE run_id = %(run_id)s"  # noqa: S608
WATCH_THREAD = """
UPDATE runs SET watch = watch | %(flags)s WHERE thread_id = %(thread_id)s AND status IN ('pending', 'running')
AND watch & %(flags)s <> %(flags)s RETURNING run_id
"""
FOLLOW_THREAD = """
UPDATE threads SET followed_until = %(until)s WHERE thread_id = %(thread_id)s
RETURNING (SELECT coalesce(max(seq), 0) FROM runs WHERE runs.thread_id = threads.thread_id)
"""
MAX_DELETED_EVENTS = 5_000
OLD_EVENTS = f"""
DELETE FROM run_events WHERE (run_id, seq) IN (
    SELECT e.run_id, e.seq FROM run_events AS e LEFT JOIN runs AS r USING (run_id)
    WHERE e.created_at < %(now)s - %(shortly)s AND (
        e.created_at < %(now)s - %(retention)s OR r.run_id IS NULL
        OR (r.status NOT IN ('pending', 'running') AND r.watch & {Watch.STORED:d} = 0)
    )
    LIMIT {MAX_DELETED_EVENTS}
)
RETURNING seq
"""  # noqa: S608 - constants
LOAD = """
SELECT count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'running'),
    min(coalesce(not_before, created_at)) FILTER (WHERE status = 'pending' AND coalesce(not_before, 0) <= %(now)s),
    min(coalesce(not_before, created_at)) FILTER (WHERE status = 'pending' AND promoted = 1),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY coalesce(not_before, created_at))
        FILTER (WHERE status = 'pending' AND coalesce(not_before, 0) <= %(now)s)
FROM runs WHERE status IN ('pending', 'running')
"""
# How long clients can read the events of a run that has ended and is not resumable.
SHORT_RETENTION_MICROS = 120_000_000


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a process takes part: how many runs it executes at a time (0: none), and its time limits.

    It changes the time of `alive_file` each second, for probes.
    """

    slots: int
    address: PostgresAddress
    alive_file: Path
    lease_s: float = 30.0
    drain_s: float = 30.0
    event_retention_s: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class RunState:
    """What the process that executes a run has to know about its row."""

    run_id: str
    status: str
    attempt: int
    cancel: Any
    cancel_reason: str | None
    watch: int


class WorkerTables:
    """The runs and processes of a database, as workers and watching processes use them."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def register(self, process_id: str, options: WorkerOptions) -> None:
        """Store the first heartbeat of a process; no earlier start of it had this id."""
        parameters = {
            "process_id": process_id,
            "role": "worker" if options.slots else "api",
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "slots": options.slots,
            "lease": int(options.lease_s * 1_000_000),
        }
        await self._database.execute(REGISTER, parameters)

    async def beat(self, process_id: str) -> bool:
        """Store a heartbeat; return False if the process has been declared dead."""
        return bool(await self._database.execute(BEAT, {"process_id": process_id}))

    async def leave(self, process_id: str) -> None:
        """Delete a process that executes nothing any more."""
        await self._database.execute(LEAVE, {"process_id": process_id})

    async def claim_next(self, process_id: str) -> Run | None:
        """Mark the most urgent run that may start as running and return it; None if there is none."""
        for _ in range(MAX_CLAIM_ATTEMPTS):
            parameters = {"process_id": process_id, "now": to_micros(utc_now())}
            if rows := await self._database.execute(CLAIM_NEXT, parameters):
                return sql.run_from_row(_RunRow(*rows[0]))
            if not await self._database.execute(WAITS_FOR_START, {}):
                return None
            # A transaction that changes the only waiting run or its thread has just locked it.
            await asyncio.sleep(CLAIM_RETRY_S)
        return None

    async def claimed_runs(self, process_id: str) -> set[str]:
        """Return the ids of the runs that this process executes by the database."""
        return {run_id for (run_id,) in await self._database.execute(CLAIMED_RUNS, {"process_id": process_id})}

    async def requeue(self, run_id: str, process_id: str) -> None:
        """Return a run that this process executes to the other workers."""
        work = partial(_requeue, run_id=run_id, process_id=process_id, crashed=False)
        # After the events of the run: they are refused when it is not running any more.
        await self._database.write(work, after_queued=True)

    async def reap(self, process_id: str) -> list[str]:
        """Return the runs and claims of dead processes, each in its own transaction; return the ids of the runs."""
        dead = await self._database.execute(DELETE_DEAD, {"process_id": process_id})
        abandoned = await self._database.execute(ABANDONED_RUNS, {})
        returned = [
            run_id for (run_id,) in abandoned if await self._database.write(partial(_requeue_abandoned, run_id=run_id))
        ]
        for (thread_id,) in await self._database.execute(ABANDONED_CLAIMS, {}):
            await self._database.write(partial(_release_abandoned, thread_id=thread_id))
        if dead or abandoned:
            await self._database.execute(DELETE_STALE_JOBS, {})
        return returned

    async def promote_due(self) -> None:
        """Dispatch the runs that have become due without an event, such as delayed ones."""
        now = to_micros(utc_now())
        for (thread_id,) in await self._database.execute(UNPROMOTED, {"now": now}):
            await self._database.write(partial(_promote, thread_id=thread_id, now=now))

    async def seconds_to_next_due(self) -> float | None:
        """Return how long it takes until a delayed run becomes due; None without one."""
        now = to_micros(utc_now())
        ((micros,),) = await self._database.execute(NEXT_DUE, {"now": now})
        return None if micros is None else (micros - now) / 1_000_000

    async def replace_missing_jobs(self) -> None:
        """Dispatch as many wake-ups as there are more runs to start than jobs."""

        def work(connection: Connection) -> None:
            for (missing,) in execute_on_postgresql(connection, MISSING_JOBS, {}):
                for _ in range(min(missing, 1_000)):
                    dispatch(connection, "")

        await self._database.write(work)

    async def states(self, run_ids: Sequence[str]) -> Mapping[str, RunState]:
        """Return the states of these runs by id; deleted ones are missing."""
        rows = await self._database.execute(STATES, {"run_ids": list(run_ids)})
        return {row[0]: RunState(*row) for row in rows}

    async def watch_run(self, run_id: str, flags: Watch) -> int | None:
        """Store what this process needs of a run; return the number of its last event, None if it has ended."""

        def work(connection: Connection) -> int | None:
            rows = execute_on_postgresql(connection, WATCH_RUN, {"run_id": run_id, "flags": int(flags)})
            notify(connection, f"{CONTROL_TOPIC}{run_id}")
            return int(rows[0][1]) if rows else None

        return await self._database.write(work)

    async def wait_for_acknowledgement(self, run_id: str) -> None:
        """Wait until the process that executes a run stores its events; a pending run needs none."""
        deadline = time.monotonic() + ACKNOWLEDGEMENT_S
        while time.monotonic() < deadline:
            state = (await self.states([run_id])).get(run_id)
            if state is None or state.status != "running" or state.watch & Watch.ACKNOWLEDGED:
                return
            await asyncio.sleep(ACKNOWLEDGEMENT_CHECK_S)

    async def acknowledge(self, run_id: str) -> None:
        """Store that the process that executes a run stores its events."""
        await self._database.execute(ACKNOWLEDGE, {"run_id": run_id})

    async def follow_thread(self, thread_id: str, flags: Watch, until: int) -> int:
        """Let all runs of a thread publish until a time; it need not exist. Return the number of its last run."""

        def work(connection: Connection) -> int:
            lock(connection, f"thread:{thread_id}")
            last = execute_on_postgresql(connection, FOLLOW_THREAD, {"thread_id": thread_id, "until": until})
            if not last:
                insert_follow(connection, thread_id, until)
            found = execute_on_postgresql(connection, WATCH_THREAD, {"thread_id": thread_id, "flags": int(flags)})
            notify(connection, *(f"{CONTROL_TOPIC}{run_id}" for (run_id,) in found))
            return int(last[0][0]) if last else 0

        return await self._database.write(work)

    async def find_runs(self, thread_id: str, after: int | None = None) -> list[tuple[int, Run]]:
        """Return the unfinished runs of a thread, or all after a number, with their numbers in order."""
        condition = sql.ACTIVE if after is None else runs.c.seq > after
        query = select(runs).where(runs.c.thread_id == thread_id, condition).order_by(runs.c.seq)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [(row.seq, sql.run_from_row(row)) for row in rows]

    async def delete_old_events(self, retention_micros: int) -> None:
        """Delete the events of ended runs after their retention, in short transactions."""
        parameters = {
            "now": to_micros(utc_now()),
            "shortly": SHORT_RETENTION_MICROS,
            "retention": max(retention_micros, SHORT_RETENTION_MICROS),
        }
        while len(await self._database.execute(OLD_EVENTS, parameters)) == MAX_DELETED_EVENTS:
            continue

    async def load(self) -> tuple[int, int, int | None, int | None, int | None]:
        """Return the numbers of pending and running runs, and since when (microseconds) runs wait.

        The times are those of the run that waits longest, of the one that waits longest for a worker, and the median.
        """
        ((pending, running, *waits),) = await self._database.execute(LOAD, {"now": to_micros(utc_now())})
        return pending, running, *waits


class _RunRow:
    """A row of `runs`, with its columns as attributes."""

    _fields = tuple(column.name for column in runs.c)

    def __init__(self, *values: Any) -> None:
        vars(self).update(zip(self._fields, values, strict=True))


def _promote(connection: Connection, thread_id: str, now: int) -> None:
    sql.thread_head.first(connection, {"of_thread": thread_id})
    sql.next_run(connection, thread_id, now)


def _requeue(connection: Connection, run_id: str, process_id: str | None, *, crashed: bool) -> None:
    sql.lock_thread_of_run.first(connection, {"of_run": run_id})
    now = to_micros(utc_now())
    parameters = {"run_id": run_id, "process_id": process_id, "now": now}
    for (thread_id,) in execute_on_postgresql(connection, REQUEUE, parameters):
        if crashed:
            execute_on_postgresql(connection, SKIP_THREAD_SEQS, {"thread_id": thread_id})
        sql.next_run(connection, thread_id, now)
        notify(connection, f"{RUN_TOPIC}{run_id}")


def _requeue_abandoned(connection: Connection, run_id: str) -> bool:
    # Another process may have returned it meanwhile, or its process may have ended it.
    sql.lock_thread_of_run.first(connection, {"of_run": run_id})
    found = execute_on_postgresql(connection, ABANDONED_RUN, {"run_id": run_id})
    for (process_id,) in found:
        _requeue(connection, run_id, process_id, crashed=True)
    return bool(found)


def _release_abandoned(connection: Connection, thread_id: str) -> None:
    sql.thread_head.first(connection, {"of_thread": thread_id})
    abandoned = f"{ABANDONED_CLAIMS} AND thread_id = %(of_thread)s"
    if execute_on_postgresql(connection, abandoned, {"of_thread": thread_id}):
        execute_on_postgresql(connection, RELEASE_CLAIM, {"of_thread": thread_id})
        sql.next_run(connection, thread_id, to_micros(utc_now()))
