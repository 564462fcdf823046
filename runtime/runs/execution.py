"""Execute one claimed run: call its graph, publish its events, and return its outcome."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR
from langgraph.errors import UnknownInterruptError
from langgraph.types import StateSnapshot
from loguru import logger

from toolweave.errors import RunAbandoned, ToolweaveError
from toolweave.files import open_files_advice
from toolweave.runtime.caller import REQUEST_ID_KEY, USER_ID_KEY
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.events.channel import Channel, uses_protocol
from toolweave.runtime.events.log import EventLog
from toolweave.runtime.events.run_publisher import Publishers, RunPublisher
from toolweave.runtime.events.thread_stream import ThreadHub
from toolweave.runtime.graphs import Graph, GraphRegistry
from toolweave.runtime.models import (
    CancelAction,
    JsonObject,
    Outcome,
    Run,
    ThreadStatus,
    cancellation_error,
    run_identity,
)
from toolweave.runtime.persistence.checkpoints.saver import RunAwareSaver
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.threads import ThreadClaim
from toolweave.runtime.runs.graph_call import GraphCall, build_graph_call, observed_config
from toolweave.runtime.runs.progress import PROGRESS_KEY, RunProgress
from toolweave.runtime.runs.streams import INTERRUPT_KEY, GraphStream, ProtocolStream

# The number of state reads to find the tasks that a graph rejects; each decodes the results of all tasks.
MAX_STATE_READS = 64
CHECKPOINT_KEYS = frozenset({"checkpoint_id", "checkpoint_map"})


def is_written_by(found: StateSnapshot | CheckpointTuple, run: Run) -> bool:
    """Return whether this run wrote a checkpoint."""
    return (found.metadata or {}).get("run_id") == run.run_id


def continuation_call(call: GraphCall) -> GraphCall:
    """Return the call that continues from the thread's newest checkpoint, which contains the input already.

    It does not name the checkpoint that the run forked from: starting there again would discard the run's steps.
    """
    configurable = {name: item for name, item in call.config["configurable"].items() if name not in CHECKPOINT_KEYS}
    config: RunnableConfig = {**call.config, "configurable": configurable}
    return replace(call, input=None, config=config)


async def is_waiting_or_done(graph: Graph, snapshot: StateSnapshot, call: GraphCall) -> bool:
    """Return whether an earlier attempt left nothing to execute: it finished, or all its tasks are interrupted.

    An empty `next` is not enough: it leaves out tasks whose results are not in a checkpoint yet.
    """
    waiting = sum(1 for task in snapshot.tasks if task.interrupts)
    if not snapshot.tasks or (waiting > 0 and waiting == len(snapshot.next)):
        return True
    return await _is_at_breakpoint(graph, snapshot, call)


async def _is_at_breakpoint(graph: Graph, snapshot: StateSnapshot, call: GraphCall) -> bool:
    """Return whether the run's newest checkpoint is at a breakpoint.

    Continuing from there would count as a human's consent. A fork's first checkpoint is the exception, because the run
    was requested to continue from it.
    """
    if (snapshot.metadata or {}).get("source") == "fork":
        return False
    if _is_breakpoint(call.interrupt_before or graph.interrupt_before_nodes, snapshot):
        return True
    after = call.interrupt_after or graph.interrupt_after_nodes
    if not after or snapshot.parent_config is None or (snapshot.metadata or {}).get("source") != "loop":
        return False
    return _is_breakpoint(after, await graph.aget_state(snapshot.parent_config))


def _is_breakpoint(nodes: Any, snapshot: StateSnapshot) -> bool:
    names = {task.name for task in snapshot.tasks}
    return bool(names) if nodes == "*" else not names.isdisjoint(nodes or ())


# The limit stops a run that crashes its process each time; restarts of a healthy server count, too.
MAX_RUN_ATTEMPTS = 20


def run_log_ids(run: Run) -> dict[str, str | None]:
    """Return the ids on each log line of a run: those of `run_identity`, of its request and of its user."""
    configurable = (run.kwargs.get("config") or {}).get("configurable") or {}
    user_id = str(configurable.get(USER_ID_KEY) or configurable.get("user_id") or "")
    return {**run_identity(run), "request_id": configurable.get(REQUEST_ID_KEY), "user_id": user_id or None}


class RunTrace(NamedTuple):
    """The open trace of a run: the graph calls `callbacks`, and `record_outcome` receives the run's end."""

    record_outcome: Callable[[Outcome], object] = lambda _outcome: None
    callbacks: tuple[BaseCallbackHandler, ...] = ()


OpenTrace = Callable[[Run], AbstractContextManager[RunTrace]]


def untraced(_run: Run) -> AbstractContextManager[RunTrace]:
    """Open no trace."""
    return nullcontext(RunTrace())


@dataclass(frozen=True, slots=True)
class EngineRuntime:
    """The services that execute runs; opened once per process."""

    persistence: Persistence
    graphs: GraphRegistry
    log: EventLog
    publishers: Publishers
    thread_hub: ThreadHub = field(default_factory=ThreadHub)
    open_trace: OpenTrace = untraced


@dataclass(frozen=True, slots=True)
class Execution:
    """The result of an execution: the outcome to store, and the JSON body for clients that wait for the run."""

    outcome: Outcome
    body: bytes


async def execute_run(
    runtime: EngineRuntime, run: Run, channel: Channel, progress: RunProgress, callbacks: Sequence[BaseCallbackHandler]
) -> Execution:
    """Execute a claimed run; an asyncio cancellation is raised, any other error becomes an outcome.

    A later attempt continues from the checkpoint of an earlier one (S-05).
    """
    publisher = await runtime.publishers.start_run(run)
    channel.start_attempt(run.attempt)
    runtime.log.publish(channel, "metadata", dumps({"run_id": run.run_id, "attempt": run.attempt}))
    try:
        if run.attempt > MAX_RUN_ATTEMPTS:
            raise RunAbandoned(f"The run was started {MAX_RUN_ATTEMPTS} times, and its process stopped each time.")
        call = build_graph_call(run, await runtime.persistence.runs.credentials(run))
        opening = runtime.graphs.open(run.graph_id, call.config, access="threads.create_run", context=call.context)
        async with opening as graph:
            if run.attempt > 1:
                continued = await _continue_attempt(runtime, run, channel, graph, call, publisher)
                if isinstance(continued, Execution):
                    return continued
                call = continued
            config = observed_config(graph, call.config, progress.record_event)
            call = replace(call, config={**config, "callbacks": [progress.usage, *callbacks]})
            publishes_all = publisher is not None and publisher.publishes_all
            stream = ProtocolStream(graph, call, publisher) if publisher and publishes_all else GraphStream(graph, call)
            async with progress.autosave(partial(_store_progress, runtime, run)), aclosing(stream.parts()) as parts:
                async for part in parts:
                    if channel.has_consumers:
                        runtime.log.publish(channel, part.event, dumps(part.payload))
                    if publisher is not None and part.event == "values":
                        publisher.publish_state(part.payload)
                return await _completed_execution(run, graph, stream)
    except BaseException as error:
        # A graph may raise anything: `sys.exit()`, or the cancellation of a task that it awaited.
        if _is_external_stop(error):
            raise
        return await _failed_execution(runtime, run, channel, error)


async def _continue_attempt(
    runtime: EngineRuntime, run: Run, channel: Channel, graph: Graph, call: GraphCall, publisher: RunPublisher | None
) -> GraphCall | Execution:
    """Return the call that continues an earlier attempt, or the run's result if nothing is left to execute.

    The last values of a finished attempt are published again, because they may have been lost with its process.
    """
    snapshot = await graph.aget_state(thread_config(run))
    if is_written_by(snapshot, run):
        if not await is_waiting_or_done(graph, snapshot, call):
            return continuation_call(call)
        execution = _execution_from_snapshot(snapshot, values=filter_output(graph, snapshot.values))
        if "values" in call.modes and (publisher is None or not publisher.publishes_all):
            runtime.log.publish(channel, "values", execution.body)
        return execution
    if await runtime.persistence.checkpointer.has_interrupted_again(run.thread_id, run.run_id):
        # The resume value of the run would answer the next interrupt, too, if it were passed again.
        return _execution_from_snapshot(snapshot)
    return call


async def _completed_execution(run: Run, graph: Graph, stream: GraphStream | ProtocolStream) -> Execution:
    if stream.interrupted or stream.values is None or not outputs_whole_state(graph):
        return _execution_from_snapshot(await graph.aget_state(thread_config(run)), values=stream.values)
    body = dumps(stream.values)
    return Execution(Outcome("success", "idle", body), body)


async def _store_progress(runtime: EngineRuntime, run: Run, progress: JsonObject) -> None:
    await runtime.persistence.runs.merge_metadata(run.run_id, run.attempt, {PROGRESS_KEY: progress})


def _is_external_stop(error: BaseException) -> bool:
    """Return whether the error is a cancellation by the engine, not an error of the graph."""
    task = asyncio.current_task()
    is_cancelled = task is None or task.cancelling() > 0
    return isinstance(error, GeneratorExit) or (is_cancelled and isinstance(error, asyncio.CancelledError))


async def _failed_execution(runtime: EngineRuntime, run: Run, channel: Channel, error: BaseException) -> Execution:
    # An error of ours says what to do; the stack of any other one shows the place in the graph.
    is_ours = isinstance(error, ToolweaveError)
    logger.bind(run_id=run.run_id, thread_id=run.thread_id, graph_id=run.graph_id).opt(
        exception=None if is_ours else error
    ).error("run failed: {}{}", type(error).__name__, f": {error}" if is_ours else "")
    described: JsonObject = loads(dumps(error))
    if advice := open_files_advice(error):
        described["message"] = f"{described['message']}. {advice}"
    final = await read_final_state(runtime, run, ThreadClaim.for_run(run), error)
    runtime.log.publish(channel, "error", dumps(described))
    if final is not None and isinstance(error, UnknownInterruptError):
        # LangGraph rejected the resume before any write (`strict_resume`): the interrupts are still pending.
        outcome = replace(final, status="error", error=described)
    else:
        values = final.values_json if final is not None else None
        # A node that ran in parallel with the failed one may be interrupted, and can still be resumed.
        waiting = final.interrupts if final is not None else {}
        outcome = Outcome("error", "error", values, waiting, error=described)
    return Execution(outcome, dumps({"__error__": described}))


async def end_cancelled(runtime: EngineRuntime, run: Run, action: CancelAction, reason: str | None = None) -> Execution:
    """Return the result of a cancelled run: its state up to the last checkpoint, or rolled back (5.8).

    `reason` is the message of the thread's error and of the webhook.
    """
    claim = ThreadClaim.for_run(run)
    runtime.persistence.checkpointer.block_writes(claim)
    if action == "rollback":
        await runtime.persistence.checkpointer.roll_back_run(claim, run.run_id)
    final = await read_final_state(runtime, run, claim) or Outcome("interrupted", "idle")
    error = cancellation_error(action, reason)
    outcome = replace(final, status="interrupted", rolled_back=action == "rollback", error=error)
    if uses_protocol(run) and not outcome.interrupts:
        # For its clients an interrupted thread is one that waits for their input (12.9).
        outcome = replace(outcome, thread_status="idle")
    return Execution(outcome, outcome.values_json or b"null")


async def read_final_state(
    runtime: EngineRuntime, run: Run, claim: ThreadClaim, failure: BaseException | None = None
) -> Outcome | None:
    """Return the state of an ended run's thread; None if the graph cannot read it (removed, or failing here, too).

    Writes that the graph rejects are removed first, under the claim on the thread. `failure` is the error of a failed
    run. Values are `null` on a thread without a checkpoint.
    """
    config = thread_config(run)
    try:
        async with runtime.graphs.open(run.graph_id, config) as graph:
            await _remove_rejected_writes(graph, runtime.persistence.checkpointer, run, claim, failure)
            snapshot = await graph.aget_state(config)
        outcome = _execution_from_snapshot(snapshot).outcome
    except BaseException as read_error:
        # The graph that failed may fail again here.
        if _is_external_stop(read_error):
            raise
        logger.warning("the state of thread {} cannot be read: {}", run.thread_id, dumps(read_error).decode())
        return None
    return outcome if snapshot.created_at else replace(outcome, values_json=b"null")


async def _remove_rejected_writes(
    graph: Graph, saver: RunAwareSaver, run: Run, claim: ThreadClaim, failure: BaseException | None
) -> None:
    """Remove the writes that the graph rejects from a run's thread, so that the next run can continue.

    LangGraph stores the writes of a task or a Command before it applies them. If a reducer then raises, or a pydantic
    state rejects the new values, LangGraph raises the same error at each read of the thread's state. The rejected tasks
    are marked as failed. A run that failed before its first task leaves the thread unchanged.
    """
    config = thread_config(run)
    # LangGraph does not wait for its pending writes when a Command is rejected.
    saver.block_writes(claim)
    await saver.wait_for_writes()
    newest = await saver.aget_tuple(config)
    if failure is not None and newest is not None and not is_written_by(newest, run):
        # A task may fail again with the same error text.
        failed_task = (ERROR, repr(failure)) in [write[1:] for write in newest.pending_writes or ()]
        if not failed_task and await saver.wrote_only_command(claim.thread_id, run.run_id):
            await saver.roll_back_run(claim, run.run_id)
    reads = iter(range(MAX_STATE_READS))
    while error := await _state_read_error(graph, config):
        newest = await saver.aget_tuple(config)
        tasks = await _find_rejected_task(graph, saver, config, _tasks_with_results(newest), reads)
        if newest is None or not (tasks or is_written_by(newest, run)):
            raise error
        if not tasks:
            # The state class rejects the checkpoint itself, so the writes of the tasks before it are rejected.
            await saver.delete_checkpoint(claim, newest.config)
            newest = await saver.aget_tuple(config)
            if newest is None or not is_written_by(newest, run):
                await saver.roll_back_run(claim, run.run_id)
                continue
            tasks = _tasks_with_results(newest)
        for task in tasks:
            await saver.fail_task(claim, newest.config, task, error)


def _tasks_with_results(found: CheckpointTuple | None) -> list[str]:
    """Return the tasks that wrote to channels, in the order in which LangGraph applies their writes."""
    writes = (found and found.pending_writes) or ()
    return list(dict.fromkeys(task for task, channel, _ in writes if channel not in WRITES_IDX_MAP))


async def _find_rejected_task(
    graph: Graph, saver: RunAwareSaver, config: RunnableConfig, tasks: list[str], reads: Iterator[int]
) -> list[str]:
    """Find the first task whose results the graph rejects; return none if it rejects the checkpoint itself.

    If no reads are left, return all tasks that may be the one.
    """

    async def rejects(some: list[str]) -> bool:
        seen = graph.copy(update={"checkpointer": saver.saver_of_tasks(some)})
        return await _state_read_error(seen, config) is not None

    good, bad = 0, len(tasks)
    if not tasks or await rejects([]):
        return []
    while bad - good > 1:
        if next(reads, None) is None:
            return tasks[good:]
        middle = (good + bad) // 2
        good, bad = (good, middle) if await rejects(tasks[:middle]) else (middle, bad)
    return tasks[bad - 1 : bad]


async def _state_read_error(graph: Graph, config: RunnableConfig) -> Exception | None:
    try:
        await graph.aget_state(config)
    except ToolweaveError:
        raise
    except Exception as error:  # noqa: BLE001 - the graph's own reducers and state classes
        return error
    return None


def outputs_whole_state(graph: Graph) -> bool:
    """Return whether a graph's output is its whole state; an output schema may leave out keys."""
    keys = (graph.output_channels, graph.stream_channels_asis)
    output, state = ({key} if isinstance(key, str) else set(key) for key in keys)
    return output >= state


def filter_output(graph: Graph, values: Any) -> Any:
    """Return the part of a state that is in the graph's output schema."""
    if outputs_whole_state(graph) or not isinstance(values, dict) or isinstance(graph.output_channels, str):
        return values
    return {name: values[name] for name in graph.output_channels if name in values}


def _execution_from_snapshot(snapshot: StateSnapshot, *, values: Any = None) -> Execution:
    """Return the result for a thread's state; the body has the run's output `values`, or the state if None."""
    state = dumps(snapshot.values)
    body = snapshot.values if values is None else values
    if snapshot.interrupts:
        # A graph of the functional API has no values before its first end.
        body = {**(body if isinstance(body, dict) else {}), INTERRUPT_KEY: list(snapshot.interrupts)}
    interrupts = interrupts_by_task(snapshot)
    status: ThreadStatus = "interrupted" if snapshot.next else "idle"
    outcome = Outcome("success", status, state, interrupts)
    return Execution(outcome, dumps(body))


async def read_states(graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
    """Return a thread's states, newest first; `options` are the arguments of LangGraph's `aget_state_history`."""
    found = []
    async for state in graph.aget_state_history(config, **options):
        found.append(state)
        # LangGraph decodes states without awaiting; this lets other tasks run in between.
        await asyncio.sleep(0)
    return found


def interrupts_by_task(snapshot: StateSnapshot) -> JsonObject:
    """Return pending interrupts as {id, value}, by task id (langgraph_api.md section 4)."""
    waiting = {
        task.id: [{"id": interrupt.id, "value": interrupt.value} for interrupt in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }
    # A value may hold messages and other objects of the graph; its JSON is stored and shown.
    shown: JsonObject = loads(dumps(waiting))
    return shown


def thread_config(run: Run) -> RunnableConfig:
    """Return the config of the newest checkpoint of the run's thread."""
    return {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
