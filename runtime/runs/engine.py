"""Schedule and execute runs in one asyncio process, by events instead of polling (S-05)."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from statistics import median
from weakref import WeakValueDictionary

from loguru import logger

from toolweave.errors import ClaimLost, Conflict, NotFound, PersistenceError
from toolweave.runtime.codec import dumps
from toolweave.runtime.events.channel import Channel, Subscription, uses_protocol
from toolweave.runtime.events.thread_stream import StreamPosition, ThreadStreamMode, ThreadSubscription, thread_events
from toolweave.runtime.models import TERMINAL_STATUSES, CancelAction, NewRun, Run, RunStatus, StreamEvent
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.runs import ExtraWork, RollbackRequestedError, superseded_reason
from toolweave.runtime.persistence.threads import CLAIMED_TEXT, DELETION_PREFIX, ThreadClaim
from toolweave.runtime.runs.execution import EngineRuntime, Execution, end_cancelled, execute_run, read_final_state
from toolweave.runtime.runs.progress import RunProgress, add_job_metadata
from toolweave.runtime.webhooks import webhook_write

STOP_TIMEOUT_S = 4.0
CLAIM_TIMEOUT_S = 30.0
RETRY_DELAY_S = 5.0
_UNKNOWN_ERROR = {"error": "RunError", "message": "The run failed; a later run has replaced its error."}


@dataclass(slots=True)
class LiveRun:
    """The state in this process of a run that has not ended; `is_deleted` if it is being deleted."""

    run: Run
    channel: Channel
    result_future: "asyncio.Future[bytes | None]"
    graph_task: "asyncio.Task[Execution] | None" = None
    cancel: CancelAction | None = None
    cancel_reason: str | None = None
    is_deleted: bool = False
    progress: RunProgress = field(default_factory=RunProgress)
    created: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A created run, the future of its result and, on request, its events from the first one."""

    run: Run
    result_future: "asyncio.Future[bytes | None]"
    events: Subscription | None = None

    async def result(self) -> bytes:
        """Wait like `EmbeddedEngine.wait_for_run`; the run may have ended and been deleted already."""
        return await wait_for_result(self.result_future)


async def wait_for_result(result_future: "asyncio.Future[bytes | None]") -> bytes:
    """Wait for a run's end and return its JSON body. Raises NotFound for a deleted run."""
    body = await asyncio.shield(result_future)
    if body is None:
        raise NotFound("Run not found")
    return body


@dataclass(slots=True)
class EmbeddedEngine:
    """Create, execute, await, stream and cancel runs; open it with `open_engine`.

    `ended_counts` counts the runs that have ended in this process, by status.
    """

    runtime: EngineRuntime
    slots: asyncio.Semaphore
    live_runs: dict[str, LiveRun] = field(default_factory=dict)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    claim_locks: "WeakValueDictionary[str, asyncio.Lock]" = field(default_factory=WeakValueDictionary)
    retry_delay_s: float = RETRY_DELAY_S
    is_stopping: bool = False
    ended_counts: "Counter[RunStatus]" = field(default_factory=Counter)

    async def start_run(self, new: NewRun, *, listen: bool = False, extra_work: ExtraWork | None = None) -> StartedRun:
        """Create a run, with `extra_work` in the same transaction, and start it as soon as it may start.

        Raises:
            NotFound: the thread does not exist and `if_not_exists` is "reject".
            Conflict: the thread is busy and the strategy is "reject".
        """
        created = await self.runtime.persistence.runs.create_run(new, extra_work)
        live = self._track_run(created.run)
        events = live.channel.listen() if listen else None
        try:
            for run_id, action in created.superseded_runs:
                await self._stop_run(run_id, action, superseded_reason(new.run_id, action))
        finally:
            # The new run is stored, so it must be scheduled even if stopping the others failed.
            if created.is_due:
                self._start_task(new.run_id, self._process_run(new.run_id))
            elif new.not_before is not None:
                self._schedule_run(new.run_id, new.not_before)
        return StartedRun(created.run, live.result_future, events)

    async def wait_for_run(self, run: Run) -> bytes:
        """Wait for a run's end and return the thread's values, or {"__error__": …}, as JSON. Raises NotFound."""
        if (live := self.live_runs.get(run.run_id)) is None:
            # The run may have ended after `run` was read.
            ended = await self.runtime.persistence.runs.get(run.thread_id, run.run_id)
            return await _stored_result(self.runtime.persistence, ended)
        return await wait_for_result(live.result_future)

    async def event_batches(self, run: Run, after: int | None = None) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Yield a run's events: from now on, or for a resumable run all after a sequence number."""
        if after is not None and run.kwargs.get("resumable"):
            batches = self.runtime.log.replay(run, after)
        else:
            live = self.live_runs.get(run.run_id)
            if live is None:
                return
            batches = live.channel.listen().batches()
        async with aclosing(batches):
            async for batch in batches:
                yield batch

    async def cancel_run(
        self, thread_id: str, run_id: str, action: CancelAction, *, wait: bool, reason: str | None = None
    ) -> None:
        """Cancel a run; its webhook contains `reason`. Raises NotFound if the run is unknown or has ended."""
        run = await self.runtime.persistence.runs.get(thread_id, run_id)
        if run.status in TERMINAL_STATUSES:
            raise NotFound("Run not found")
        next_run_id = await self.runtime.persistence.runs.request_cancel(run_id, action, reason)
        live = self.live_runs.get(run_id)
        await self._stop_run(run_id, action, reason)
        if next_run_id is not None:
            await self._start_next_run(next_run_id)
        if wait and live is not None:
            await asyncio.shield(live.result_future)

    async def delete_run(self, thread_id: str, run_id: str) -> None:
        """Delete a run with its checkpoints; stop it first (5.9).

        Raises:
            NotFound: there is no such run.
            Conflict: the run has ended, and another one is pending or running on the thread.
        """
        run = await self.runtime.persistence.runs.get(thread_id, run_id)
        if run.status not in TERMINAL_STATUSES:
            if (live := self.live_runs.get(run_id)) is not None:
                live.is_deleted = True
            await self.cancel_run(thread_id, run_id, "rollback", wait=True)
            return
        async with self.claim_thread(thread_id) as claim:
            await self.runtime.persistence.checkpointer.roll_back_run(claim, run_id)
            await self.runtime.persistence.runs.delete(thread_id, run_id)
            final = await read_final_state(self.runtime, run, claim)
            if final is not None:
                await self.runtime.persistence.threads.set_state(
                    thread_id, final.values_json or b"null", final.thread_status, final.interrupts
                )

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its runs and checkpoints; stop its runs first. Raises NotFound."""
        await self.runtime.persistence.threads.get(thread_id)
        live_runs = self._live_runs_of(thread_id)
        for live in live_runs:
            live.is_deleted = True
            # Pending and delayed runs end at once, running ones after their graph has stopped.
            with suppress(NotFound):
                await self.runtime.persistence.runs.request_cancel(live.run.run_id, "rollback")
            await self._stop_run(live.run.run_id, "rollback")
        if live_runs:
            await asyncio.wait([live.result_future for live in live_runs], timeout=STOP_TIMEOUT_S)
        # One deletion at a time: a second one must not release the claim of the first.
        lock = self.claim_locks.setdefault(f"{DELETION_PREFIX}{thread_id}", asyncio.Lock())
        async with (
            lock,
            self._hold_claim(ThreadClaim.for_deletion(thread_id), self.runtime.persistence.claims.override) as claim,
        ):
            await self.delete_claimed_thread(claim)

    async def delete_claimed_thread(self, claim: ThreadClaim) -> None:
        """Delete a claimed thread with its runs, checkpoints and tool results."""
        thread_id = claim.thread_id
        # The row is deleted last: if the process crashes in between, the thread can be deleted again.
        await self.runtime.persistence.delete_thread_contents(claim)
        await self.runtime.persistence.threads.delete(thread_id)
        for live in self._live_runs_of(thread_id):
            # Created meanwhile, or not stopped in time: its row is deleted, so its waiters are released.
            live.is_deleted = True
            await self._stop_run(live.run.run_id, "rollback")
            self._end_run(live, None)
        self.end_thread_streams(thread_id)

    @asynccontextmanager
    async def claim_thread(
        self, thread_id: str, *, expired_by: datetime | None = None, deleting: bool = False
    ) -> AsyncIterator[ThreadClaim]:
        """Claim an idle thread for writing its checkpoints (R-01); new runs start after the block.

        Concurrent requests for one thread claim it one after the other, and wait at most `CLAIM_TIMEOUT_S`. With
        `expired_by`, the thread is only claimed if it has expired by then and no request holds it. While it is claimed
        for `deleting`, no run can be created on it.

        Raises:
            NotFound: there is no such thread.
            Conflict: a run is pending or running there, another request holds it too long, or it has not expired.
        """
        lock = self.claim_locks.setdefault(thread_id, asyncio.Lock())
        if expired_by is not None and lock.locked():
            raise Conflict(CLAIMED_TEXT.format(thread_id=thread_id))
        claim = ThreadClaim.for_deletion(thread_id) if deleting else ThreadClaim.new(thread_id)
        acquire = partial(self.runtime.persistence.claims.acquire, expired_by=expired_by)
        try:
            await asyncio.wait_for(lock.acquire(), CLAIM_TIMEOUT_S)
        except TimeoutError:
            raise Conflict(CLAIMED_TEXT.format(thread_id=thread_id)) from None
        try:
            async with self._hold_claim(claim, acquire):
                yield claim
        finally:
            lock.release()

    @asynccontextmanager
    async def _hold_claim(
        self, claim: ThreadClaim, acquire: Callable[[ThreadClaim], Awaitable[None]]
    ) -> AsyncIterator[ThreadClaim]:
        checkpointer = self.runtime.persistence.checkpointer
        try:
            await acquire(claim)
        except asyncio.CancelledError:
            # The claim may be stored nevertheless: a queued write is executed.
            self._start_task(claim.token, self._release_claim(claim))
            raise
        checkpointer.accept_claim(claim)
        try:
            yield claim
        finally:
            checkpointer.remove_claim(claim)
            # Shielded: the thread's next run must start although this request is cancelled.
            await asyncio.shield(self._start_task(claim.token, self._release_claim(claim)))

    async def _release_claim(self, claim: ThreadClaim) -> None:
        try:
            next_run_id = await self.runtime.persistence.claims.release(claim)
        except PersistenceError as error:
            logger.warning("the claim on thread {} cannot be released yet: {}", claim.thread_id, error)
            self._retry_later(claim.token, lambda _: self._release_claim(claim))
            return
        if next_run_id is not None:
            await self._start_next_run(next_run_id)

    def end_thread_streams(self, thread_id: str) -> None:
        """End the streams of a deleted thread."""
        self.runtime.publishers.log.close_channel(thread_id)
        self.runtime.thread_hub.close_thread(thread_id)

    def follow_thread(self, thread_id: str, modes: frozenset[ThreadStreamMode]) -> ThreadSubscription:
        """Subscribe to all events of a thread from now on; the thread need not exist."""
        follower = self.runtime.thread_hub.listen(thread_id, modes)
        for live in self._live_runs_of(thread_id):
            follower.add_run(live.run, live.channel, has_started=live.graph_task is not None)
        return follower

    def thread_events(
        self, thread_id: str, modes: frozenset[ThreadStreamMode], after: StreamPosition | None
    ) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Yield a thread's events, like the function of this name."""
        follow = partial(self.follow_thread, thread_id, modes)
        return thread_events(follow, self.runtime.log, self.runtime.persistence, after)

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
            self._start_task(run_id, self._process_run(run_id))
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

    def _live_runs_of(self, thread_id: str) -> list[LiveRun]:
        return [live for live in self.live_runs.values() if live.run.thread_id == thread_id]

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
            self._start_task(run_id, self._process_run(run_id))

    def _start_task(self, key: str, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        self.timers.pop(key, None)
        task = asyncio.create_task(work, name=f"run-{key}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _process_run(self, run_id: str, *, needs_slot: bool = True) -> None:
        """Claim a run, execute it in a cancellable task, and store its end."""
        async with self.slots if needs_slot else nullcontext():
            live = self.live_runs.get(run_id)
            if live is None or self.is_stopping:
                # The next process starts the run; in this one it would fail because the databases are closed.
                return
            try:
                run = await self.runtime.persistence.runs.claim(run_id)
            except PersistenceError as error:
                logger.error("run {} cannot be started yet: {}", run_id, error)
                self._retry_later(run_id, self._process_run)
                return
            if run is None:
                return
            live.run, live.cancel = run, live.cancel or run.cancel
            claim = ThreadClaim.for_run(run)
            self.runtime.persistence.checkpointer.accept_claim(claim)
            try:
                execution = None
                if live.cancel is None:
                    live.graph_task = asyncio.create_task(execute_run(self.runtime, run, live.channel, live.progress))
                    try:
                        execution = await live.graph_task
                    except asyncio.CancelledError:
                        if live.cancel is None:
                            live.graph_task.cancel()
                            raise
                if execution is None:
                    execution = await end_cancelled(self.runtime, run, live.cancel or "interrupt", live.cancel_reason)
                await self._finish_run(live, execution)
            except ClaimLost:
                # The thread is being deleted, which ends the run. If the deletion fails, the retry ends it.
                self._retry_later(run_id, self._requeue_run)
            except Exception as error:  # noqa: BLE001 - the run executor: the disk may be full, the row deleted
                self._fail_waiters(live, error)
            # Skipped when the server stops: then the graph's last writes count for the next start.
            self.runtime.persistence.checkpointer.remove_claim(claim)

    async def _finish_run(self, live: LiveRun, execution: Execution) -> None:
        run, persistence = live.run, self.runtime.persistence
        if live.is_deleted and not execution.outcome.rolled_back:
            # The graph ignored its cancellation; its writes are rolled back.
            execution = await end_cancelled(self.runtime, run, "rollback")
        body: bytes | None = execution.body
        outcome = add_job_metadata(execution.outcome, run, live.progress)
        # A deleted run sends no webhook.
        webhook = None if live.is_deleted else webhook_write(run, outcome)
        self.runtime.log.flush()
        if run.kwargs.get("temporary") and live.channel.resumable:
            await self.runtime.log.cache_ended(run)
        try:
            async with self.runtime.publishers.publish_end(run, outcome):
                next_run_id = await persistence.runs.finalise(run.run_id, run.attempt, outcome, webhook)
        except RollbackRequestedError:
            # The rollback was requested after the graph had finished; the response had promised it.
            await self._finish_run(live, await end_cancelled(self.runtime, run, "rollback", live.cancel_reason))
            return
        self.ended_counts[outcome.status] += 1
        if outcome.status != "error":  # which is logged with its reason
            logger.bind(thread_id=run.thread_id, run_id=run.run_id).debug(
                "run of {} on thread {}: {} in {:.2f} s",
                run.graph_id,
                run.thread_id,
                outcome.status,
                time.monotonic() - live.created,
            )
        if webhook is not None:
            persistence.webhooks.new_delivery.set()
        if outcome.rolled_back:
            body = None
        if run.kwargs.get("temporary"):
            await persistence.delete_thread_contents(ThreadClaim.for_run(run))
        self._end_run(live, body)
        if run.kwargs.get("temporary"):
            self.end_thread_streams(run.thread_id)
        if next_run_id is not None:
            await self._start_next_run(next_run_id)

    async def _start_next_run(self, run_id: str) -> None:
        if run_id not in self.live_runs:
            run = await self.runtime.persistence.runs.find(run_id)
            if run is None:
                return
            self._track_run(run)
        self._start_task(run_id, self._process_run(run_id))

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
            self._start_task(run_id, self._process_run(run_id, needs_slot=False))
        if current is None or current.status in TERMINAL_STATUSES:
            timer = self.timers.pop(run_id, None)
            if timer is not None:
                timer.cancel()
            if current is not None:
                self.ended_counts[current.status] += 1
            self._end_run(live, None if current is None else await _stored_result(self.runtime.persistence, current))

    def _fail_waiters(self, live: LiveRun, error: Exception) -> None:
        """Raise a PersistenceError for a run's waiters and requeue the run, because its end could not be stored."""
        logger.bind(run_id=live.run.run_id).opt(exception=error).critical("the end of a run could not be stored")
        self.live_runs.pop(live.run.run_id, None)
        self.runtime.log.close_channel(live.run.run_id)
        if not live.result_future.done():
            live.result_future.set_exception(PersistenceError("The end of the run could not be stored; see the log."))
            live.result_future.exception()
        self._track_run(live.run)
        self._retry_later(live.run.run_id, self._requeue_run)

    def _retry_later(self, key: str, work: Callable[[str], Coroutine[None, None, None]]) -> None:
        if self.is_stopping:
            return
        loop = asyncio.get_running_loop()
        self.timers[key] = loop.call_later(self.retry_delay_s, lambda: self._start_task(key, work(key)))

    async def _requeue_run(self, run_id: str) -> None:
        try:
            requeued = await self.runtime.persistence.runs.requeue(run_id)
        except PersistenceError as error:
            logger.warning("run {} cannot be requeued yet: {}", run_id, error)
            self._retry_later(run_id, self._requeue_run)
            return
        live = self.live_runs.get(run_id)
        if requeued:
            self._start_task(run_id, self._process_run(run_id))
        elif live is not None:
            await self._apply_stored_end(live)
            next_run_id = await self.runtime.persistence.runs.find_startable(live.run.thread_id)
            if next_run_id is not None:
                await self._start_next_run(next_run_id)

    def _end_run(self, live: LiveRun, body: bytes | None) -> None:
        self.live_runs.pop(live.run.run_id, None)
        self.runtime.log.close_channel(live.run.run_id)
        self.runtime.thread_hub.on_run_ended(live.run)
        if not live.result_future.done():
            live.result_future.set_result(body)


@asynccontextmanager
async def open_engine(runtime: EngineRuntime, *, max_concurrent: int) -> AsyncIterator[EmbeddedEngine]:
    """Open the embedded engine and stop it at the end; call `recover` when graphs may run."""
    engine = EmbeddedEngine(runtime, asyncio.Semaphore(max_concurrent))
    runtime.persistence.checkpointer.on_before_save = runtime.log.wait_until_stored
    try:
        yield engine
    finally:
        await engine.stop()


async def _stored_result(persistence: Persistence, run: Run) -> bytes:
    """Return the JSON body of an ended run from the database (langgraph_api.md 5.2). Raises NotFound."""
    thread = await persistence.threads.get(run.thread_id)
    if run.status == "error":
        return dumps({"__error__": thread.error or _UNKNOWN_ERROR})
    values = thread.values
    waiting = [interrupt for interrupts in (thread.interrupts or {}).values() for interrupt in interrupts]
    if waiting:
        values = {
            **(values if isinstance(values, dict) else {}),
            "__interrupt__": [{**interrupt, "response_schema": None} for interrupt in waiting],
        }
    return dumps(values)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The number of unfinished runs and their waiting times in seconds; None if no run waits.

    A delayed run waits from its due time. `unblocked` runs wait for a worker, not for another run of their thread.
    """

    pending: int
    running: int
    longest_wait_s: float | None
    median_wait_s: float | None
    longest_unblocked_wait_s: float | None


def measure_load(engine: EmbeddedEngine, now: datetime) -> EngineLoad:
    """Return an engine's load at a moment."""
    runs = [live.run for live in engine.live_runs.values()]
    running = [run for run in runs if run.status == "running"]
    occupied = {run.thread_id for run in running}
    waits: list[float] = []
    unblocked: list[float] = []
    # Runs are in the order of their creation: the first of a thread may start.
    for run in runs:
        if run.status == "pending" and (waited := _waiting_seconds(run, now)) >= 0:
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


def _waiting_seconds(run: Run, now: datetime) -> float:
    return (now - (run.not_before or run.created_at)).total_seconds()
