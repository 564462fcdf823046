"""Schedule and execute runs in one asyncio process, by events instead of polling (S-05)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from statistics import median

from loguru import logger

from toolweave.errors import ClaimLost, PersistenceError
from toolweave.runtime.events.channel import uses_protocol
from toolweave.runtime.events.log import EndedRun
from toolweave.runtime.models import TERMINAL_STATUSES, CancelAction, NewRun, Run, Watch
from toolweave.runtime.persistence.runs import ExtraWork, superseded_reason
from toolweave.runtime.runs.engine import STOP_TIMEOUT_S, EngineLoad, LiveRun, RunEngine, StartedRun, stored_result
from toolweave.runtime.runs.execution import EngineRuntime


class RunSlots:
    """The slots for executing runs; the most urgent waiting run gets the next free one (S-08)."""

    def __init__(self, slots: int) -> None:
        # With a free slot no run waits.
        self._free = slots
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def hold(self, urgency: int) -> "HeldSlot":
        """Return a context manager that holds a slot; a smaller `urgency` gets one first, then the earlier arrival."""
        return HeldSlot(self, urgency)

    async def acquire(self, urgency: int) -> None:
        """Wait for a slot."""
        if self._free:
            self._free -= 1
            return
        slot_given = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (urgency, next(self._arrivals), slot_given))
        try:
            await slot_given
        except asyncio.CancelledError:
            if not slot_given.cancelled():
                # The slot was given in the same iteration of the event loop.
                self.release()
            raise

    def release(self) -> None:
        """Give a slot to the most urgent waiting run."""
        while self._waiting:
            _, _, slot_given = heappop(self._waiting)
            if not slot_given.done():
                slot_given.set_result(None)
                return
        self._free += 1


class HeldSlot:
    """A slot that is held inside an `async with` block."""

    __slots__ = ("_slots", "_urgency")

    def __init__(self, slots: RunSlots, urgency: int) -> None:
        self._slots = slots
        self._urgency = urgency

    async def __aenter__(self) -> None:
        """Wait for the slot."""
        await self._slots.acquire(self._urgency)

    async def __aexit__(self, *_: object) -> None:
        """Release the slot."""
        self._slots.release()


@dataclass(slots=True, kw_only=True)
class EmbeddedEngine(RunEngine):
    """Execute all runs of a data folder in this process; open it with `open_engine`."""

    slots: RunSlots

    async def start_run(
        self,
        new: NewRun,
        *,
        listen: bool = False,
        awaited: bool = False,  # noqa: ARG002 - a result is always there
        extra_work: ExtraWork | None = None,
    ) -> StartedRun:
        """Create a run and start it as soon as it may start."""
        created = await self.runtime.persistence.runs.create_run(new, extra_work)
        live = self._track_run(created.run)
        events = live.channel.listen() if listen else None
        try:
            for run_id, action in created.superseded_runs:
                await self._stop_run(run_id, action, superseded_reason(new.run_id, action))
        finally:
            # The new run is stored, so it must be scheduled even if stopping the others failed.
            if created.is_due:
                self._start_task(new.run_id, self._process_run(new.run_id, self._slot_for(new.run_id)))
            elif new.not_before is not None:
                self._schedule_run(new.run_id, new.not_before)
        return StartedRun(created.run, live.result_future, events)

    async def recover(self) -> None:
        """Restart all unfinished runs of an earlier process (S-05)."""
        runs = self.runtime.persistence.runs
        await self.runtime.publishers.log.skip_used_seqs()
        startable = await runs.recover()
        # Also track runs behind others: clients may join them before they start.
        for run in await runs.list_pending():
            self._track_run(run)
        for run_id in startable:
            logger.info("run {} continues after a restart (attempt {})", run_id, self.live_runs[run_id].run.attempt + 1)
            self._start_task(run_id, self._process_run(run_id, self._slot_for(run_id)))
        for run_id, due_at in await runs.list_delayed():
            self._schedule_run(run_id, due_at)

    async def stop(self) -> None:
        """Stop all executions; running runs stay `running` on disk and continue at the next start."""
        self.is_stopping = True
        for timer in self.timers.values():
            timer.cancel()
        tasks = tuple(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        self.runtime.thread_hub.close_all()
        for live in tuple(self.live_runs.values()):
            self.runtime.log.close_channel(live.run.run_id)
            live.result_future.cancel()
        self.runtime.log.flush()
        self.runtime.publishers.log.flush()

    async def load(self) -> EngineLoad:
        """Return the numbers and waiting times of the unfinished runs."""
        return measure_load([live.run for live in self.live_runs.values()], datetime.now(UTC))

    def exclusive(self, name: str) -> AbstractAsyncContextManager[object]:
        """Exclude other blocks of this name."""
        return self.claim_locks.setdefault(name, asyncio.Lock())

    async def find_interrupted_run(self, thread_id: str, interrupt_id: str) -> str | None:
        """Return the id of the run that has published this interrupt and has not ended yet."""
        return self.runtime.publishers.find_interrupted_run(thread_id, interrupt_id)

    async def is_waiting_for_input(self, thread_id: str) -> bool:
        """Return whether a run that has not ended yet has published that it is interrupted."""
        return self.runtime.publishers.is_waiting_for_input(thread_id)

    async def find_ended_run(self, run_id: str) -> EndedRun | None:
        """Return the events of a recent run whose temporary thread is deleted; None if they are not stored."""
        return self.runtime.log.ended_runs.find(run_id)

    async def publish_state(self, thread_id: str, data: Callable[[], bytes]) -> None:
        """Send a state that a client wrote to the followers of its thread, if there are any."""
        if self.runtime.thread_hub.has_followers(thread_id):
            self.runtime.thread_hub.publish(thread_id, "state_update", data())

    async def prepare_thread_stream(self, thread_id: str) -> None:
        """Return at once: a stream in the process that executes the runs misses nothing."""

    async def _watched(self, run: Run, needs: Watch) -> LiveRun | None:  # noqa: ARG002 - all are there
        return self.live_runs.get(run.run_id)

    async def _unfinished_runs(self, thread_id: str) -> list[LiveRun]:
        return self._live_runs_of(thread_id)

    def _slot_for(self, run_id: str) -> HeldSlot:
        live = self.live_runs.get(run_id)
        return self.slots.hold(live.run.urgency if live is not None else 0)

    async def _claim_run(self, run_id: str) -> tuple[LiveRun, Run] | None:
        live = self.live_runs.get(run_id)
        if live is None or self.is_stopping:
            # The next process starts the run; in this one it would fail because the databases are closed.
            return None
        try:
            run = await self.runtime.persistence.runs.claim(run_id)
        except PersistenceError as error:
            logger.error("run {} cannot be started yet: {}", run_id, error)
            self._retry_later(run_id, lambda key: self._process_run(key, self._slot_for(key)))
            return None
        return None if run is None else (live, run)

    def _track_run(self, run: Run) -> LiveRun:
        # The thread log stores the events of a run of the newer protocol.
        resumable = bool(run.kwargs.get("resumable")) and not uses_protocol(run)
        channel = self.runtime.log.open_channel(run.run_id, resumable=resumable, created_at=run.created_at)
        live = LiveRun(run, channel, asyncio.get_running_loop().create_future())
        self.live_runs[run.run_id] = live
        self.runtime.thread_hub.on_run_opened(run, channel)
        return live

    def _schedule_run(self, run_id: str, due_at: datetime) -> None:
        delay = max(0.0, (due_at - datetime.now(UTC)).total_seconds())
        self.timers[run_id] = asyncio.get_running_loop().call_later(delay, self._on_due, run_id, due_at)

    def _on_due(self, run_id: str, due_at: datetime) -> None:
        # A timer may fire a little early by the wall clock, which claim() uses.
        if datetime.now(UTC) < due_at:
            self._schedule_run(run_id, due_at)
        else:
            self._start_task(run_id, self._process_run(run_id, self._slot_for(run_id)))

    async def _start_next_run(self, run_id: str) -> None:
        if run_id not in self.live_runs:
            run = await self.runtime.persistence.runs.find(run_id)
            if run is None:
                return
            self._track_run(run)
        self._start_task(run_id, self._process_run(run_id, self._slot_for(run_id)))

    async def _stop_run(self, run_id: str, action: CancelAction, reason: str | None = None) -> None:
        live = self.live_runs.get(run_id)
        if live is None:
            return
        if live.cancel != "rollback":
            live.cancel, live.cancel_reason = action, reason
        if live.graph_task is not None:
            live.graph_task.cancel()
            return
        await self._apply_stored_end(live)

    async def _apply_stored_end(self, live: LiveRun) -> None:
        """Release a run's waiters if its row has ended or is deleted."""
        run_id = live.run.run_id
        current = await self.runtime.persistence.runs.find(run_id)
        if current is not None and current.status == "pending" and current.cancel is not None:
            # The run had started before a crash, so its checkpoints are read or rolled back first.
            self._start_task(run_id, self._process_run(run_id, nullcontext()))
        if current is None or current.status in TERMINAL_STATUSES:
            timer = self.timers.pop(run_id, None)
            if timer is not None:
                timer.cancel()
            if current is not None:
                self.ended_counts[current.status] += 1
            self._end_run(live, None if current is None else await stored_result(self.runtime.persistence, current))

    def _fail_waiters(self, live: LiveRun, error: Exception) -> None:
        """Raise a PersistenceError for a run's waiters and requeue the run, because its end could not be stored."""
        if isinstance(error, ClaimLost):
            self._retry_later(live.run.run_id, self._requeue_run)
            return
        logger.bind(run_id=live.run.run_id).opt(exception=error).critical("the end of a run could not be stored")
        self.live_runs.pop(live.run.run_id, None)
        self.runtime.log.close_channel(live.run.run_id)
        if not live.result_future.done():
            live.result_future.set_exception(PersistenceError("The end of the run could not be stored; see the log."))
            live.result_future.exception()
        self._track_run(live.run)
        self._retry_later(live.run.run_id, self._requeue_run)

    async def _requeue_run(self, run_id: str) -> None:
        try:
            requeued = await self.runtime.persistence.runs.requeue(run_id)
        except PersistenceError as error:
            logger.warning("run {} cannot be requeued yet: {}", run_id, error)
            self._retry_later(run_id, self._requeue_run)
            return
        live = self.live_runs.get(run_id)
        if requeued:
            self._start_task(run_id, self._process_run(run_id, self._slot_for(run_id)))
        elif live is not None:
            await self._apply_stored_end(live)
            next_run_id = await self.runtime.persistence.runs.find_startable(live.run.thread_id)
            if next_run_id is not None:
                await self._start_next_run(next_run_id)


@asynccontextmanager
async def open_engine(runtime: EngineRuntime, *, max_concurrent: int) -> AsyncIterator[EmbeddedEngine]:
    """Open the embedded engine and stop it at the end; call `recover` when graphs may run."""
    engine = EmbeddedEngine(runtime, slots=RunSlots(max_concurrent))
    runtime.persistence.checkpointer.on_before_save = runtime.log.wait_until_stored
    try:
        yield engine
    finally:
        await engine.stop()


def measure_load(runs: Sequence[Run], now: datetime) -> EngineLoad:
    """Return the load of an engine with these unfinished runs at a moment."""
    running = [run for run in runs if run.status == "running"]
    occupied = {run.thread_id for run in running}
    waits: list[float] = []
    unblocked: list[float] = []
    # Runs are in the order of their creation: the first of a thread may start.
    for run in runs:
        waited = (now - (run.not_before or run.created_at)).total_seconds()
        if run.status == "pending" and waited >= 0:
            waits.append(waited)
            if run.thread_id not in occupied:
                unblocked.append(waited)
                occupied.add(run.thread_id)
    return EngineLoad(
        pending=len(runs) - len(running),
        running=len(running),
        longest_wait_s=max(waits, default=None),
        median_wait_s=median(waits) if waits else None,
        longest_unblocked_wait_s=max(unblocked, default=None),
    )
