"""Execute runs in several processes on one PostgreSQL database; each process serves every client (S-06).

The table `runs` is the truth. A transaction that makes a run startable inserts a job, whose only effect is that a free
worker claims the most urgent run. A process heartbeats; the runs of a process without a heartbeat continue elsewhere
from their checkpoints, and the database refuses what such a process writes later (docs/decisions/0019).
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from loguru import logger

from toolweave.errors import ClaimLost, Conflict, NotFound, PersistenceError
from toolweave.files import FILE_MODE
from toolweave.runtime.codec import from_micros, to_micros, utc_now
from toolweave.runtime.events.channel import Channel, uses_protocol
from toolweave.runtime.events.feed import SHARED_FLUSH_INTERVAL_S, Feed, FollowedRun, NoticeChannel, SharedThreadLog
from toolweave.runtime.events.log import EndedRun, EventLog, run_id_prefix
from toolweave.runtime.events.run_publisher import Publishers
from toolweave.runtime.events.thread_stream import RunCursor
from toolweave.runtime.graphs import GraphRegistry
from toolweave.runtime.models import TERMINAL_STATUSES, CancelAction, NewRun, Run, Watch
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.events import (
    CONTROL_TOPIC,
    CRON_TOPIC,
    DELETED_TOPIC,
    PROTOCOL_TOPIC,
    RUN_TOPIC,
    THREAD_TOPIC,
    WEBHOOK_TOPIC,
    find_asking_run,
    has_asked,
    insert_notice,
    notice_key,
    parse_end,
    read_end,
    read_events,
)
from toolweave.runtime.persistence.postgres.database import PostgresDatabase, forget_at_a_crash, open_pool
from toolweave.runtime.persistence.postgres.jobs import JobQueue
from toolweave.runtime.persistence.postgres.workers import RunState, WorkerOptions, WorkerTables
from toolweave.runtime.persistence.run_rows import run_from_new
from toolweave.runtime.persistence.runs import ExtraWork
from toolweave.runtime.persistence.threads import ThreadClaim, ThreadClaimed
from toolweave.runtime.runs.engine import (
    CLAIM_TIMEOUT_S,
    DELETED_REASON,
    STOP_TIMEOUT_S,
    EngineLoad,
    LiveRun,
    RunEngine,
    StartedRun,
    stored_result,
)
from toolweave.runtime.runs.execution import EngineRuntime, OpenTrace

CLAIM_RETRY_S = 0.05
TICK_S = 1.0
# How often, in ticks, lost jobs are replaced, and old events are deleted.
JOB_TICKS, EVENT_TICKS = 5, 30
FOLLOW_FOR_S = 120.0
# Connections that fetch and delete jobs.
JOB_CONNECTIONS = 4
DRAIN_CHECK_S = 0.05


@dataclass(slots=True, kw_only=True)
class DistributedEngine(RunEngine):
    """The engine of one of several processes; open it with `open_distributed_engine`.

    `live_runs` are the runs that clients of this process wait for or follow, `executing` those that this process
    executes.
    """

    options: WorkerOptions
    database: PostgresDatabase
    tables: WorkerTables
    jobs: JobQueue
    feed: Feed
    executing: dict[str, LiveRun] = field(default_factory=dict)
    followed_threads: dict[str, Watch] = field(default_factory=dict)
    process_id: str = field(default_factory=lambda: uuid4().hex)
    has_failed: bool = False
    is_draining: asyncio.Event = field(default_factory=asyncio.Event)
    # Claimed by this process, which does not execute them: the connection broke during the claim.
    unknown_runs: set[str] = field(default_factory=set)
    # The time (monotonic) until which this process declares no other one dead.
    reaps_after: float = 0.0
    background: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def start_run(
        self, new: NewRun, *, listen: bool = False, awaited: bool = False, extra_work: ExtraWork | None = None
    ) -> StartedRun:
        """Create a run, which a worker starts as soon as it may start."""
        watch = Watch.RESULT if awaited else Watch(0)
        if listen:
            watch |= Watch.EVENTS
        # The thread's log stores the events of a run of the newer protocol.
        if new.kwargs.get("resumable") and not uses_protocol(new):
            watch |= Watch.EVENTS | Watch.STORED
        # Followed before it is created, so that none of its events is missed.
        live = self._follow_run(run_from_new(new), 0, is_created=False) if awaited or listen else None
        events = live.channel.listen() if live is not None and listen else None
        try:
            created = await self.runtime.persistence.runs.create_run(replace(new, watch=watch), extra_work)
        except BaseException:
            if live is not None:
                self._forget(live)
                self.runtime.thread_hub.forget_run(live.run)
            raise
        for run_id, _ in created.superseded_runs:
            self._start_task(f"count:{run_id}", self._count_unstarted(run_id))
        if live is None:
            return StartedRun(created.run, asyncio.get_running_loop().create_future(), None)
        live.run, live.watch = created.run, watch
        if (followed := self.feed.runs.get(new.run_id)) is not None:
            followed.is_created = True
        return StartedRun(created.run, live.result_future, events)

    async def recover(self) -> None:
        """Register this process, follow notifications, and execute runs if it is a worker."""
        self.database.wakeups.add_listener(self.on_topics)
        loops: dict[str, Coroutine[None, None, None]] = {
            "feed": self.feed.run(),
            "heartbeat": self._beat_regularly(),
            "tick": self._tick_regularly(),
        }
        if self.options.slots:
            loops["reaper"] = self._reap_regularly()
            loops["worker"] = self._work()
        for name, work in loops.items():
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(self._on_loop_end)
            self.background.append(task)

    def _on_loop_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and not self.is_stopping and task.exception() is not None:
            logger.opt(exception=task.exception()).critical(
                "the loop {!r} has failed; restart this process", task.get_name()
            )
            self.has_failed = True

    async def drain(self) -> None:
        """Take no more runs; let the executing ones finish, and return those that need longer to other workers."""
        self.is_draining.set()
        if self.executing:
            logger.info("waiting for {} runs to finish", len(self.executing))
        deadline = time.monotonic() + self.options.drain_s
        while self.executing and time.monotonic() < deadline:  # noqa: ASYNC110 - runs end one by one
            await asyncio.sleep(DRAIN_CHECK_S)
        await asyncio.gather(*map(self._return_run, tuple(self.executing.values())))

    async def stop(self) -> None:
        """Drain, and end all streams."""
        if self.is_stopping:
            return
        self.is_stopping = True
        await self.drain()
        for timer in self.timers.values():
            timer.cancel()
        for task in (*self.background, *self.tasks):
            task.cancel()
        if self.background or self.tasks:
            await asyncio.wait((*self.background, *self.tasks), timeout=STOP_TIMEOUT_S)
        self.database.wakeups.remove_listener(self.on_topics)
        self.runtime.thread_hub.close_all()
        for live in tuple(self.live_runs.values()):
            live.channel.close()
            live.result_future.cancel()
        self.runtime.log.flush()
        self.runtime.publishers.log.flush()
        with suppress(PersistenceError):
            await self.tables.leave(self.process_id)

    async def load(self) -> EngineLoad:
        """Return the numbers and waiting times of the unfinished runs, of all processes."""
        pending, running, oldest, unblocked, middle = await self.tables.load()
        now = to_micros(utc_now())
        waits = [None if since is None else max(0, now - since) / 1_000_000 for since in (oldest, middle, unblocked)]
        return EngineLoad(pending, running, *waits)

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Exclude other blocks of this name, in all processes."""
        return self.database.hold_lock(name)

    async def find_interrupted_run(self, thread_id: str, interrupt_id: str) -> str | None:
        """Return the id of the run that has published this interrupt and has not ended yet."""
        return await self.database.read(partial(find_asking_run, thread_id=thread_id, interrupt_id=interrupt_id))

    async def is_waiting_for_input(self, thread_id: str) -> bool:
        """Return whether a run that has not ended yet has published that it is interrupted."""
        return await self.database.read(partial(has_asked, thread_id=thread_id))

    async def find_ended_run(self, run_id: str) -> EndedRun | None:
        """Return the events of a recent run whose temporary thread is deleted; None if they are not stored."""
        end = await self.database.read(partial(read_end, run_id=run_id))
        head = {} if end is None else parse_end(end)[0]
        if not head.get("is_stored"):
            return None
        prefix = run_id_prefix(from_micros(head["created_at"]))
        read = partial(read_events, run_id=run_id, after=0, limit=100_000, id_prefix=prefix)
        return EndedRun(await self.database.read(read), head["metadata"], 0)

    async def publish_state(self, thread_id: str, data: Callable[[], bytes]) -> None:
        """Send a state that a client wrote to the followers of its thread, if there are any."""
        await self.database.write(partial(insert_notice, thread_id=thread_id, data=data))

    async def prepare_thread_stream(self, thread_id: str) -> None:
        """Make sure that the events of a thread from now on reach the hub's followers."""
        channel = NoticeChannel(self.runtime.thread_hub, thread_id)
        notices = FollowedRun(channel, to_micros(utc_now()), None, is_created=False)
        self.feed.runs.setdefault(notice_key(thread_id), notices)
        last_run = await self.mark_thread(thread_id, Watch.EVENTS)
        known = {live.run.run_id for live in self._live_runs_of(thread_id)}
        self.runtime.thread_hub.cursors.setdefault(thread_id, RunCursor(last_run, set(known)))
        active = await self.tables.find_runs(thread_id)
        known |= self.live_runs.keys()
        for _, run in active:
            # The mark lets these publish from their first event: no further statements.
            if run.status == "pending" and run.attempt == 0 and run.run_id not in known:
                self._follow_run(run, 0).watch |= run.watch & Watch.EVENTS
        await self._follow_new_runs(thread_id)
        for _, run in active:
            await self._watched(run, Watch.EVENTS)

    async def _watched(self, run: Run, needs: Watch) -> LiveRun | None:
        if run.run_id not in self.live_runs:
            # A stream of the thread needs the run's events from the first.
            await self._follow_new_runs(run.thread_id)
        live = self.live_runs.get(run.run_id)
        if run.status in TERMINAL_STATUSES or (live is not None and live.watch & needs == needs):
            return live
        last_seq = await self.tables.watch_run(run.run_id, needs)
        if (execution := self.executing.get(run.run_id)) is not None:
            execution.channel.is_stored |= bool(needs & Watch.EVENTS)
        elif needs & Watch.EVENTS and last_seq is not None:
            await self.tables.wait_for_acknowledgement(run.run_id)
        live = self.live_runs.get(run.run_id)
        if live is None and last_seq is not None:
            live = self._follow_run(run, last_seq)
        if live is not None:
            live.watch |= needs
        return live

    async def _unfinished_runs(self, thread_id: str) -> list[LiveRun]:
        found = [await self._watched(run, Watch.RESULT) for _, run in await self.tables.find_runs(thread_id)]
        return [live for live in found if live is not None]

    async def _stop_run(self, run_id: str, action: CancelAction, reason: str | None = None) -> None:
        if (live := self.executing.get(run_id)) is not None:
            self._cancel_execution(live, action, reason)
        else:
            await self._count_unstarted(run_id)
        self.feed.name_run(run_id)

    async def _start_next_run(self, run_id: str) -> None:
        """Return at once: the transaction that made the run startable has dispatched it."""

    async def _claim_run(self, run_id: str) -> tuple[LiveRun, Run] | None:  # noqa: ARG002 - the most urgent one
        if self.is_draining.is_set():
            return None
        try:
            run = await self.tables.claim_next(self.process_id)
        except PersistenceError as error:
            # The job is lost, and replaced later.
            logger.error("no run can be started yet: {}", error)
            return None
        if run is None:
            return None
        channel = self.runtime.log.open_channel(run.run_id, resumable=False, created_at=run.created_at)
        channel.is_stored = bool(run.watch & Watch.EVENTS)
        live = LiveRun(run, channel, asyncio.get_running_loop().create_future(), cancel_reason=run.cancel_reason)
        live.is_deleted = run.cancel_reason == DELETED_REASON
        self.executing[run.run_id] = live
        return live, run

    async def _acquire_claim(self, claim: ThreadClaim, expired_by: datetime | None) -> None:
        """Claim a thread; wait for requests of other processes that hold it."""
        deadline = time.monotonic() + CLAIM_TIMEOUT_S
        while True:
            try:
                await self.runtime.persistence.claims.acquire(claim, expired_by=expired_by)
            except ThreadClaimed:
                if expired_by is not None or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(CLAIM_RETRY_S)
            else:
                return

    def _end_run(self, live: LiveRun, body: bytes | None) -> None:
        run_id = live.run.run_id
        # An execution is not among the followed runs, and may have been dropped before.
        if self.live_runs.get(run_id) is not live:
            self._drop_execution(live)
            # The end is stored: clients of this process need not wait for the notification.
            self.feed.name_run(run_id)
            return
        self._forget(live)
        self.runtime.thread_hub.on_run_ended(live.run)
        if not live.result_future.done():
            live.result_future.set_result(body)

    def _fail_waiters(self, live: LiveRun, error: Exception) -> None:
        run_id = live.run.run_id
        self._drop_execution(live)
        if isinstance(error, Conflict) and not isinstance(error, ClaimLost):
            logger.bind(run_id=run_id).warning("this process has lost run {}: {}", run_id, error)
            return
        if not isinstance(error, ClaimLost):
            logger.bind(run_id=run_id).opt(exception=error).critical("the end of a run could not be stored")
        self._retry_later(run_id, self._requeue_run)

    def _drop_execution(self, live: LiveRun) -> None:
        if self.executing.get(live.run.run_id) is live:
            del self.executing[live.run.run_id]
            self.runtime.log.close_channel(live.run.run_id)

    async def _requeue_run(self, run_id: str) -> None:
        if run_id in self.executing:
            # This process executes a later attempt.
            return
        try:
            await self.tables.requeue(run_id, self.process_id)
        except PersistenceError as error:
            logger.warning("run {} cannot be requeued yet: {}", run_id, error)
            self._retry_later(run_id, self._requeue_run)

    def _follow_run(self, run: Run, after: int, *, is_created: bool = True) -> LiveRun:
        prefix = run_id_prefix(run.created_at) if run.kwargs.get("resumable") and not uses_protocol(run) else None
        live = LiveRun(run, Channel(run.run_id, id_prefix=prefix), asyncio.get_running_loop().create_future())
        self.live_runs[run.run_id] = live
        self.feed.runs[run.run_id] = FollowedRun(live.channel, after, prefix, is_created)
        self.runtime.thread_hub.on_run_opened(run, live.channel)
        if is_created:
            self.feed.name_run(run.run_id)
        return live

    def _forget(self, live: LiveRun) -> None:
        self.live_runs.pop(live.run.run_id, None)
        self.feed.runs.pop(live.run.run_id, None)
        live.channel.close()

    def on_end(self, run_id: str, end: bytes | None) -> None:
        """Release the clients that wait for a run or follow it."""
        live = self.live_runs.get(run_id)
        if live is None:
            return
        head, body = parse_end(end) if end is not None else ({}, b"")
        if head.get("is_deleted"):
            self._end_run(live, None)
        elif head.get("has_body"):
            self._end_run(live, body)
        else:
            self._start_task(run_id, self._apply_stored_end(live))

    async def _apply_stored_end(self, live: LiveRun) -> None:
        try:
            run = await self.runtime.persistence.runs.find(live.run.run_id)
            body = None if run is None else await stored_result(self.runtime.persistence, run)
        except NotFound:
            body = None
        except PersistenceError:
            self._retry_later(live.run.run_id, lambda _: self._apply_stored_end(live))
            return
        self._end_run(live, body)

    async def mark_thread(self, thread_id: str, flags: Watch) -> int:
        """Let all runs of a thread publish, as long as this process follows it; return the number of its last run."""
        self.followed_threads[thread_id] = self.followed_threads.get(thread_id, Watch(0)) | flags
        until = to_micros(utc_now()) + int(FOLLOW_FOR_S * 1_000_000)
        return await self.tables.follow_thread(thread_id, self.followed_threads[thread_id], until)

    async def _follow_new_runs(self, thread_id: str) -> None:
        """Follow the runs that were created on a followed thread since the last call; a short one may have ended."""
        if (cursor := self.runtime.thread_hub.cursors.get(thread_id)) is None:
            return
        found = await self.tables.find_runs(thread_id, cursor.seq)
        if not all(run.watch & Watch.EVENTS for _, run in found):
            # The mark had expired: this process was frozen, or could not use the database.
            await self.mark_thread(thread_id, Watch(0))
        for seq, run in found:
            if seq > cursor.seq:
                cursor.seq = seq
                if run.run_id not in cursor.run_ids | self.live_runs.keys():
                    self._follow_run(run, 0).watch |= run.watch & Watch.EVENTS
                cursor.run_ids.discard(run.run_id)

    async def _renew_marks(self) -> None:
        # A later tick repeats it.
        with suppress(PersistenceError):
            for thread_id in tuple(self.followed_threads):
                if thread_id in self.feed.threads or self.runtime.thread_hub.has_followers(thread_id):
                    await self.mark_thread(thread_id, Watch(0))
                    await self._follow_new_runs(thread_id)
                else:
                    self.followed_threads.pop(thread_id, None)
                    self.feed.runs.pop(notice_key(thread_id), None)

    def _on_thread_deleted(self, thread_id: str) -> None:
        for live in self.executing.values():
            if live.run.thread_id == thread_id:
                self._cancel_execution(live, "rollback", DELETED_REASON)
        self.end_thread_streams(thread_id)

    def on_topics(self, topics: list[str]) -> None:
        """Handle a notification; an empty one means that some may have been missed."""
        if not topics:
            self.feed.name_all()
            self._start_task("marks", self._renew_marks())
            topics = [CRON_TOPIC, WEBHOOK_TOPIC]
        controlled = []
        for topic in topics:
            kind, name = topic[:1], topic[1:]
            if kind == RUN_TOPIC:
                self.feed.name_run(name)
            elif kind == PROTOCOL_TOPIC:
                self.feed.name_thread(name)
            elif kind == CONTROL_TOPIC and name in self.executing:
                controlled.append(name)
            elif kind == THREAD_TOPIC and name in self.runtime.thread_hub.cursors:
                self._start_task(f"thread:{name}", self._on_run_created(name))
            elif kind == DELETED_TOPIC:
                self._on_thread_deleted(name)
            elif kind in (CRON_TOPIC, WEBHOOK_TOPIC):
                persistence = self.runtime.persistence
                (persistence.crons.changed if kind == CRON_TOPIC else persistence.webhooks.new_delivery).set()
        if controlled:
            self._start_task("control", self._check_executions(controlled))

    async def _on_run_created(self, thread_id: str) -> None:
        # A later tick repeats it.
        with suppress(PersistenceError):
            await self._follow_new_runs(thread_id)

    async def _check_executions(self, run_ids: Sequence[str]) -> None:
        """Apply what other processes have requested of the runs that this process executes."""
        try:
            states = await self.tables.states(run_ids)
        except PersistenceError:
            return
        for run_id in run_ids:
            live, state = self.executing.get(run_id), states.get(run_id)
            if live is not None:
                self._apply_state(live, state)

    def _apply_state(self, live: LiveRun, state: RunState | None) -> None:
        if state is None or (state.status, state.attempt) != ("running", live.run.attempt):
            # Another process executes the run, or it is deleted; nothing that this one writes is stored.
            self._drop_execution(live)
            if live.graph_task is not None:
                live.graph_task.cancel()
            return
        if state.watch & Watch.EVENTS and not state.watch & Watch.ACKNOWLEDGED:
            live.channel.is_stored = True
            self._start_task(f"acknowledge:{live.run.run_id}", self.tables.acknowledge(live.run.run_id))
        if state.cancel is not None and live.cancel not in (state.cancel, "rollback"):
            self._cancel_execution(live, state.cancel, state.cancel_reason)

    def _cancel_execution(self, live: LiveRun, action: CancelAction, reason: str | None) -> None:
        live.is_deleted |= reason == DELETED_REASON
        if live.cancel != "rollback":
            live.cancel, live.cancel_reason = action, reason
        if live.graph_task is not None:
            live.graph_task.cancel()

    async def _return_run(self, live: LiveRun) -> None:
        """Stop an execution and let another worker continue it from its last checkpoint."""
        task = live.graph_task
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOP_TIMEOUT_S)
        logger.warning("run {} needs longer than the drain timeout; another worker continues it", live.run.run_id)
        await self.runtime.persistence.checkpointer.wait_for_writes()
        self.runtime.log.flush()
        self.runtime.publishers.log.flush()
        self._drop_execution(live)
        await self._requeue_run(live.run.run_id)

    async def _work(self) -> None:
        execute = partial(self._process_run, "", nullcontext())
        # Notifications do not pass through PgBouncer. A fetched or deleted job that comes back wakes a worker in vain.
        options: Any = {"direct": True, "configure": forget_at_a_crash}
        while not self.is_draining.is_set():
            try:
                async with open_pool(self.options.address, "jobs", JOB_CONNECTIONS, **options) as pool:
                    await self.jobs.work(pool, execute, self.options.slots, self.is_draining)
            except PersistenceError as error:
                logger.error("runs cannot be fetched: {} Trying again.", error)
                await asyncio.sleep(TICK_S)

    async def _beat_regularly(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(self.options.lease_s / 3)
            with suppress(PersistenceError):
                if not await self.tables.beat(self.process_id):
                    await self._start_anew()
                if time.monotonic() - last > self.options.lease_s * 2 / 3:
                    # The other processes may have missed heartbeats for the same reason.
                    self.reaps_after = time.monotonic() + self.options.lease_s
                last = time.monotonic()

    async def _start_anew(self) -> None:
        """Stop all executions after this process was declared dead, and continue with a new identity."""
        logger.warning(
            "this process had no heartbeat for {:.0f} s; other workers continue its runs", self.options.lease_s
        )
        for live in tuple(self.executing.values()):
            self._apply_state(live, None)
        self.process_id = uuid4().hex
        self.runtime.persistence.claims.process_id = self.process_id
        await self.tables.register(self.process_id, self.options)

    async def _tick_regularly(self) -> None:
        """Do what notifications normally cause, in case that they are lost."""
        ticks = 0
        while True:
            with suppress(OSError):
                if not self.has_failed:
                    self.options.alive_file.touch(FILE_MODE)
            wait = TICK_S
            try:
                if self.executing:
                    await self._check_executions(tuple(self.executing))
                if self.options.slots:
                    await self.tables.promote_due()
                    wait = min(TICK_S, await self.tables.seconds_to_next_due() or TICK_S)
                if ticks % JOB_TICKS == 0:
                    await self._tick_rarely(ticks)
            except PersistenceError as error:
                logger.warning("the database cannot be used yet: {}", error)
            ticks += 1
            await asyncio.sleep(max(0.0, wait))

    async def _tick_rarely(self, ticks: int) -> None:
        if self.options.slots:
            await self._return_unknown_runs()
            await self.tables.replace_missing_jobs()
        if ticks % EVENT_TICKS == 0:
            await self._renew_marks()
            if self.options.slots:
                await self.tables.delete_old_events(int(self.options.event_retention_s * 1_000_000))

    async def _return_unknown_runs(self) -> None:
        unknown = await self.tables.claimed_runs(self.process_id) - self.executing.keys()
        # One that is found for the first time may have been claimed just now.
        for run_id in unknown & self.unknown_runs:
            await self._requeue_run(run_id)
        self.unknown_runs = unknown

    async def _reap_regularly(self) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.5, 1.5) * TICK_S)  # noqa: S311 - workers take turns
            if time.monotonic() < self.reaps_after:
                continue
            try:
                for run_id in await self.tables.reap(self.process_id):
                    logger.bind(run_id=run_id).warning("run {} continues, because its worker has died", run_id)
            except PersistenceError as error:
                logger.warning("the runs of dead workers cannot be returned yet: {}", error)


@asynccontextmanager
async def open_distributed_engine(
    persistence: Persistence, graphs: GraphRegistry, options: WorkerOptions, open_trace: OpenTrace
) -> AsyncIterator[DistributedEngine]:
    """Open the engine of a process; `recover` starts its work.

    Raises:
        TypeError: the persistence is not PostgreSQL.
    """
    database = persistence.app
    if not isinstance(database, PostgresDatabase):
        raise TypeError("several processes need PostgreSQL")
    feed = Feed(database)
    thread_log = SharedThreadLog(database, feed)
    log = EventLog(database, flush_interval_s=SHARED_FLUSH_INTERVAL_S)
    runtime = EngineRuntime(persistence, graphs, log, Publishers(thread_log), open_trace=open_trace)
    jobs = JobQueue()
    database.dispatcher = jobs.dispatch
    engine = DistributedEngine(
        runtime, options=options, database=database, tables=WorkerTables(database), jobs=jobs, feed=feed
    )
    feed.on_end, thread_log.follow = engine.on_end, partial(engine.mark_thread, flags=Watch.THREAD)
    persistence.claims.process_id = engine.process_id
    persistence.checkpointer.on_before_save = log.wait_until_stored
    await engine.tables.register(engine.process_id, options)
    try:
        yield engine
    finally:
        await engine.stop()
