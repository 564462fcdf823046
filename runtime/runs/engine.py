"""Execute runs, and let clients await, stream and cancel them: what both engines share (S-05, S-06)."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from weakref import WeakValueDictionary

from loguru import logger

from toolweave.errors import Conflict, NotFound, PersistenceError
from toolweave.log_ids import log_ids
from toolweave.runtime.codec import dumps
from toolweave.runtime.events.channel import Channel, Subscription
from toolweave.runtime.events.log import EndedRun
from toolweave.runtime.events.thread_stream import StreamPosition, ThreadStreamMode, ThreadSubscription, thread_events
from toolweave.runtime.models import TERMINAL_STATUSES, CancelAction, NewRun, Run, RunStatus, StreamEvent, Watch
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.runs import ExtraWork, RollbackRequestedError, RunEnd
from toolweave.runtime.persistence.threads import CLAIMED_TEXT, DELETION_PREFIX, ThreadClaim
from toolweave.runtime.runs.execution import (
    EngineRuntime,
    Execution,
    end_cancelled,
    execute_run,
    read_final_state,
    run_log_ids,
)
from toolweave.runtime.runs.progress import RunProgress, add_job_metadata
from toolweave.runtime.webhooks import webhook_write

STOP_TIMEOUT_S = 4.0
CLAIM_TIMEOUT_S = 30.0
RETRY_DELAY_S = 5.0
NO_WATCH = Watch(0)
# The cancel reason of a run that is deleted: it sends no webhook.
DELETED_REASON = "the run is deleted"
_UNKNOWN_ERROR = {"error": "RunError", "message": "The run failed; a later run has replaced its error."}


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
    # What this process needs of a run that another one may execute.
    watch: Watch = NO_WATCH
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
class RunEngine(ABC):
    """Create, execute, await, stream and cancel runs.

    `live_runs` are the unfinished runs that clients of this process wait for or follow; in an embedded engine all
    unfinished runs. `ended_counts` counts the runs that have ended in this process, by status.
    """

    runtime: EngineRuntime
    live_runs: dict[str, LiveRun] = field(default_factory=dict)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    claim_locks: "WeakValueDictionary[str, asyncio.Lock]" = field(default_factory=WeakValueDictionary)
    retry_delay_s: float = RETRY_DELAY_S
    is_stopping: bool = False
    ended_counts: "Counter[RunStatus]" = field(default_factory=Counter)

    @abstractmethod
    async def start_run(
        self, new: NewRun, *, listen: bool = False, awaited: bool = False, extra_work: ExtraWork | None = None
    ) -> StartedRun:
        """Create a run, with `extra_work` in the same transaction, and start it as soon as it may start.

        `listen` subscribes to its events, `awaited` says that the caller needs its result.

        Raises:
            NotFound: the thread does not exist and `if_not_exists` is "reject".
            Conflict: the thread is busy and the strategy is "reject".
        """

    @abstractmethod
    async def recover(self) -> None:
        """Start to execute runs, those that a crash has interrupted included."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop all executions; unfinished runs continue at the next start or elsewhere."""

    @abstractmethod
    async def load(self) -> EngineLoad:
        """Return the numbers and waiting times of the unfinished runs, of all processes."""

    @abstractmethod
    def exclusive(self, name: str) -> AbstractAsyncContextManager[object]:
        """Exclude other blocks of this name."""

    @abstractmethod
    async def find_interrupted_run(self, thread_id: str, interrupt_id: str) -> str | None:
        """Return the id of the run that has published this interrupt and has not ended yet."""

    @abstractmethod
    async def is_waiting_for_input(self, thread_id: str) -> bool:
        """Return whether a run that has not ended yet has published that it is interrupted."""

    @abstractmethod
    async def find_ended_run(self, run_id: str) -> EndedRun | None:
        """Return the events of a recent run whose temporary thread is deleted; None if they are not stored."""

    @abstractmethod
    async def publish_state(self, thread_id: str, data: Callable[[], bytes]) -> None:
        """Send a state that a client wrote to the followers of its thread, if there are any."""

    @abstractmethod
    async def _watched(self, run: Run, needs: Watch) -> LiveRun | None:
        """Return the live run of an unfinished run, None if it has ended."""

    @abstractmethod
    async def _unfinished_runs(self, thread_id: str) -> list[LiveRun]:
        """Return the unfinished runs of a thread."""

    @abstractmethod
    async def _stop_run(self, run_id: str, action: CancelAction, reason: str | None = None) -> None:
        """Stop a run whose end was requested in the database."""

    @abstractmethod
    async def _start_next_run(self, run_id: str) -> None:
        """Start a run that may start now."""

    @abstractmethod
    async def _claim_run(self, run_id: str) -> tuple[LiveRun, Run] | None:
        """Mark a run as running; None if there is none to execute now."""

    @abstractmethod
    async def _requeue_run(self, run_id: str) -> None:
        """Make a run pending again whose end could not be stored."""

    @abstractmethod
    def _fail_waiters(self, live: LiveRun, error: Exception) -> None:
        """Handle an execution whose end could not be stored.

        After ClaimLost the thread is being deleted, which ends the run. If the deletion fails, a retry ends it.
        """

    async def prepare_stream(self, run: Run) -> None:
        """Make sure that the events of a run from now on reach a stream that is opened next."""
        await self._watched(run, Watch.EVENTS)

    @abstractmethod
    async def prepare_thread_stream(self, thread_id: str) -> None:
        """Make sure that the events of a thread from now on reach the hub's followers."""

    async def wait_for_run(self, run: Run) -> bytes:
        """Wait for a run's end and return the thread's values, or {"__error__": …}, as JSON. Raises NotFound."""
        if (live := await self._watched(run, Watch.RESULT)) is None:
            # The run may have ended after `run` was read.
            ended = await self.runtime.persistence.runs.get(run.thread_id, run.run_id)
            return await stored_result(self.runtime.persistence, ended)
        return await wait_for_result(live.result_future)

    async def event_batches(self, run: Run, after: int | None = None) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Yield a run's events: from now on, or for a resumable run all after a sequence number."""
        live = await self._watched(run, Watch.EVENTS)
        if after is not None and run.kwargs.get("resumable"):
            batches = self.runtime.log.replay(run, after, None if live is None else live.channel)
        elif live is None:
            return
        else:
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
        live = await self._watched(run, Watch.RESULT) if wait else None
        next_run_id = await self.runtime.persistence.runs.request_cancel(run_id, action, reason)
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
            await self.cancel_run(thread_id, run_id, "rollback", wait=True, reason=DELETED_REASON)
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
        live_runs = await self._unfinished_runs(thread_id)
        for live in live_runs:
            live.is_deleted = True
            # Pending and delayed runs end at once, running ones after their graph has stopped.
            with suppress(NotFound):
                await self.runtime.persistence.runs.request_cancel(live.run.run_id, "rollback", DELETED_REASON)
            await self._stop_run(live.run.run_id, "rollback", DELETED_REASON)
        if live_runs:
            await asyncio.wait([live.result_future for live in live_runs], timeout=STOP_TIMEOUT_S)
        # One deletion at a time: a second one must not release the claim of the first.
        override = self.runtime.persistence.claims.override
        async with (
            self.exclusive(f"{DELETION_PREFIX}{thread_id}"),
            self._hold_claim(ThreadClaim.for_deletion(thread_id), override) as claim,
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
        acquire = partial(self._acquire_claim, expired_by=expired_by)
        try:
            await asyncio.wait_for(lock.acquire(), CLAIM_TIMEOUT_S)
        except TimeoutError:
            raise Conflict(CLAIMED_TEXT.format(thread_id=thread_id)) from None
        try:
            async with self._hold_claim(claim, acquire):
                yield claim
        finally:
            lock.release()

    async def _acquire_claim(self, claim: ThreadClaim, expired_by: datetime | None) -> None:
        await self.runtime.persistence.claims.acquire(claim, expired_by=expired_by)

    @asynccontextmanager
    async def _hold_claim(
        self, claim: ThreadClaim, acquire: Callable[[ThreadClaim], Awaitable[None]]
    ) -> AsyncIterator[ThreadClaim]:
        checkpointer = self.runtime.persistence.checkpointer
        try:
            await acquire(claim)
        except (asyncio.CancelledError, PersistenceError):
            # The claim may be stored nevertheless: a queued write is executed, and a lost answer may have been yes.
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
            follower.add_run(live.run, live.channel, has_started=live.run.status == "running")
        return follower

    def thread_events(
        self, thread_id: str, modes: frozenset[ThreadStreamMode], after: StreamPosition | None
    ) -> AsyncGenerator[Sequence[StreamEvent]]:
        """Yield a thread's events, like the function of this name."""
        follow = partial(self.follow_thread, thread_id, modes)
        return thread_events(follow, self.prepare_thread_stream, self.runtime.log, self.runtime.persistence, after)

    def _live_runs_of(self, thread_id: str) -> list[LiveRun]:
        return [live for live in self.live_runs.values() if live.run.thread_id == thread_id]

    def _start_task(self, key: str, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        self.timers.pop(key, None)
        task = asyncio.create_task(work, name=f"run-{key}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _process_run(self, run_id: str, slot: AbstractAsyncContextManager[object]) -> None:
        """Claim a run, execute it in a cancellable task, and store its end."""
        async with slot:
            claimed = await self._claim_run(run_id)
            if claimed is None:
                return
            live, run = claimed
            live.run, live.cancel = run, live.cancel or run.cancel
            claim = ThreadClaim.for_run(run)
            self.runtime.persistence.checkpointer.accept_claim(claim)
            try:
                with log_ids(**run_log_ids(run)):
                    with self.runtime.open_trace(run) as trace:
                        execution = None
                        if live.cancel is None:
                            work = execute_run(self.runtime, run, live.channel, live.progress, trace.callbacks)
                            live.graph_task = asyncio.create_task(work)
                            try:
                                execution = await live.graph_task
                            except asyncio.CancelledError:
                                if live.cancel is None:
                                    live.graph_task.cancel()
                                    raise
                        if execution is None:
                            action = live.cancel or "interrupt"
                            execution = await end_cancelled(self.runtime, run, action, live.cancel_reason)
                        trace.record_outcome(execution.outcome)
                    await self._finish_run(live, execution)
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
            async with self.runtime.publishers.publish_end(run, outcome) as last_event:
                works = [work for work in (webhook, last_event) if work is not None]
                end = RunEnd(run.run_id, run.attempt, outcome, body)
                next_run_id = await persistence.runs.finalise(end, works)
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
            await persistence.delete_temporary_contents(run.thread_id)
        self._end_run(live, body)
        if run.kwargs.get("temporary"):
            self.end_thread_streams(run.thread_id)
        if next_run_id is not None:
            await self._start_next_run(next_run_id)

    async def _count_unstarted(self, run_id: str) -> None:
        """Count a run that this process has cancelled, if no worker has counted it because it had not started."""
        with suppress(PersistenceError):
            run = await self.runtime.persistence.runs.find(run_id)
            if run is not None and run.attempt == 0 and run.status in TERMINAL_STATUSES:
                self.ended_counts[run.status] += 1

    def _retry_later(self, key: str, work: Callable[[str], Coroutine[None, None, None]]) -> None:
        if self.is_stopping:
            return
        loop = asyncio.get_running_loop()
        self.timers[key] = loop.call_later(self.retry_delay_s, lambda: self._start_task(key, work(key)))

    def _end_run(self, live: LiveRun, body: bytes | None) -> None:
        self.live_runs.pop(live.run.run_id, None)
        self.runtime.log.close_channel(live.run.run_id)
        self.runtime.thread_hub.on_run_ended(live.run)
        if not live.result_future.done():
            live.result_future.set_result(body)


async def stored_result(persistence: Persistence, run: Run) -> bytes:
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
