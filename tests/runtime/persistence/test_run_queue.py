"""After any sequence of changes, a thread's runs execute one at a time, in order, and none is forgotten."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tests.runtime.persistence.records import MOMENT, SUCCESS, new_run
from toolweave.errors import Conflict, NotFound
from toolweave.runtime.codec import from_micros, to_micros
from toolweave.runtime.models import Outcome
from toolweave.runtime.persistence import runs as run_queue
from toolweave.runtime.persistence.database import connect_writer, disconnect, transaction
from toolweave.runtime.persistence.run_rows import next_run
from toolweave.runtime.persistence.runs import create_run
from toolweave.runtime.persistence.schema import runs, threads, upgrade_schema

THREADS = ("t1", "t2")
ACTIVE = ("pending", "running")
OUTCOMES = (
    SUCCESS,
    Outcome("error", "error", error={"error": "E", "message": "m"}),
    Outcome("interrupted", "interrupted", b"{}"),
    Outcome("interrupted", "idle", b"null", rolled_back=True),
)
ALL_RUNS = select(runs).order_by(runs.c.seq)
BUSY_THREADS = select(threads.c.thread_id).where(threads.c.status == "busy")


@cache
def empty_file() -> bytes:
    """A migrated database, made once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app.db"
        disconnect(connect_writer(path, partial(upgrade_schema, str(path))))
        return path.read_bytes()


class Queue:
    """Drive the transitions like an engine, which only executes runs that a transition returned as startable.

    `startable` are these runs: from create_run, finalise, next_run, recover, or a timer. A claim removes its
    run, whether it succeeds or not. A due run that is first in its thread's queue and not in `startable` would never
    start.
    """

    def __init__(self, path: Path) -> None:
        path.write_bytes(empty_file())
        self.path = path
        self.connection = connect_writer(path, None)
        self.now = to_micros(MOMENT)
        self.startable: set[str] = set()
        self.timers: dict[str, int] = {}

    def close(self) -> None:
        disconnect(self.connection)

    def write(self, work: Callable[..., Any], *arguments: object) -> Any:
        with transaction(self.connection):
            return work(self.connection, *arguments, self.now)

    def rows(self, *statuses: str) -> list[Any]:
        return [row for row in self.connection.execute(ALL_RUNS) if not statuses or row.status in statuses]

    def add_startable(self, run_id: str | None) -> None:
        if run_id is not None:
            self.startable.add(run_id)

    def create(self, random: Random) -> None:
        thread = random.choice(THREADS)
        strategy = random.choice(["enqueue"] * 5 + ["interrupt", "rollback", "reject"])
        delay = random.choice([0, 0, 0, 5, 10])
        not_before = from_micros(self.now) + timedelta(seconds=delay) if delay else None
        temporary = random.random() < 0.1
        new = new_run(thread, multitask_strategy=strategy, not_before=not_before, temporary=temporary)
        active = [row.run_id for row in self.rows(*ACTIVE) if row.thread_id == thread]
        try:
            created = self.write(create_run, new)
        except Conflict:
            assert strategy == "reject"
            assert active
            return
        assert not (strategy == "reject" and active)
        if strategy in ("interrupt", "rollback"):
            assert [run_id for run_id, _ in created.superseded_runs] == active
        if created.is_due:
            self.add_startable(new.run_id)
        elif not_before is not None:
            self.timers[new.run_id] = to_micros(not_before)

    def claim_startable(self, random: Random) -> None:
        if self.startable:
            self.claim(random.choice(sorted(self.startable)))

    def claim_any(self, random: Random) -> None:
        self.claim(random.choice([row.run_id for row in self.rows()] or ["unknown"]))

    def claim(self, run_id: str) -> None:
        before = self.rows()
        self.startable.discard(run_id)
        claimed = self.write(run_queue.claim_run, run_id)
        if claimed is None:
            return
        queue = [
            row
            for row in before
            if row.thread_id == claimed.thread_id and row.status == "pending" and (row.not_before or 0) <= self.now
        ]
        assert queue[0].run_id == run_id
        assert claimed.attempt == queue[0].attempt + 1

    def finalise(self, random: Random) -> None:
        running = self.rows("running")
        if running:
            row = random.choice(running)
            outcome = random.choice(OUTCOMES)
            if row.cancel == "rollback" and not row.temporary and not outcome.rolled_back:
                with pytest.raises(run_queue.RollbackRequestedError):
                    self.write(run_queue.finalise_run, run_queue.RunEnd(row.run_id, row.attempt, outcome))
                outcome = replace(outcome, rolled_back=True)
            self.add_startable(self.write(run_queue.finalise_run, run_queue.RunEnd(row.run_id, row.attempt, outcome)))

    def finalise_wrongly(self, random: Random) -> None:
        row = random.choice(self.rows() or [None])
        if row is not None:
            with pytest.raises(Conflict):
                self.write(run_queue.finalise_run, run_queue.RunEnd(row.run_id, row.attempt + 1, SUCCESS))

    def cancel(self, random: Random) -> None:
        row = random.choice(self.rows() or [None])
        if row is None:
            return
        try:
            self.write(run_queue.cancel_unfinished_run, row.run_id, random.choice(["interrupt", "rollback"]))
        except NotFound:
            assert row.status not in ACTIVE
            return
        assert row.status in ACTIVE
        self.add_startable(self.write(next_run, row.thread_id))

    def delete(self, random: Random) -> None:
        row = random.choice(self.rows() or [None])
        if row is not None:
            self.write(run_queue.delete_run, row.thread_id, row.run_id)
            self.add_startable(self.write(next_run, row.thread_id))

    def let_time_pass(self, random: Random) -> None:
        self.now += random.choice([1, 5, 10]) * 1_000_000
        self.startable |= {run_id for run_id, at in self.timers.items() if at <= self.now}
        self.timers = {run_id: at for run_id, at in self.timers.items() if at > self.now}

    def crash_and_restart(self, _: Random) -> None:
        disconnect(self.connection)
        self.connection = connect_writer(self.path, None)
        self.startable = set(self.write(run_queue.recover_runs))
        self.timers = {run_id: to_micros(at) for run_id, at in run_queue.delayed_runs(self.connection, self.now)}
        assert self.rows("running") == []

    def check(self) -> None:
        active = self.rows(*ACTIVE)
        running = [row.thread_id for row in active if row.status == "running"]
        assert len(running) == len(set(running))
        assert set(self.connection.execute(BUSY_THREADS).scalars()) == {row.thread_id for row in active}
        for thread in set(THREADS) - set(running):
            due = [row.run_id for row in active if row.thread_id == thread and (row.not_before or 0) <= self.now]
            assert not due or due[0] in self.startable
        assert {row.run_id for row in active if (row.not_before or 0) > self.now} <= set(self.timers)


COMMON = ("create", "claim_startable", "finalise") * 4
RARE = ("claim_any", "finalise_wrongly", "cancel", "delete", "let_time_pass", "let_time_pass", "crash_and_restart")
steps = st.tuples(st.sampled_from(COMMON + RARE), st.integers(0, 2**16))


@pytest.mark.requirement("S-05")
@given(script=st.lists(steps, min_size=50, max_size=50))
# Shrinking a failure takes longer than a test may.
@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
def test_one_run_at_a_time_in_order_and_none_forgotten(script: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        queue = Queue(Path(folder) / "app.db")
        try:
            for action, seed in script:
                getattr(queue, action)(Random(seed))
                queue.check()
        finally:
            queue.close()
