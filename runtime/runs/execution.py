"""Execute one claimed run: call its graph, publish what it streams, and say how it ended."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from langgraph.checkpoint.serde.types import ERROR
from langgraph.errors import UnknownInterruptError
from langgraph.types import StateSnapshot
from loguru import logger

from toolweave.errors import RunAbandoned, ToolweaveError
from toolweave.files import open_files_advice
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.events.channel import Channel, uses_protocol
from toolweave.runtime.events.log import EventLog
from toolweave.runtime.events.run_publisher import Publishers, RunPublisher
from toolweave.runtime.events.thread_stream import ThreadHub
from toolweave.runtime.graphs import Graph, GraphRegistry
from toolweave.runtime.models import CancelAction, JsonObject, Outcome, Run, ThreadStatus, cancellation_error
from toolweave.runtime.persistence.checkpointer import RunAwareSaver, TaskSubsetSaver
from toolweave.runtime.persistence.data_folder import Persistence
from toolweave.runtime.persistence.threads import ThreadClaim
from toolweave.runtime.runs.graph_call import GraphCall, build_graph_call, observed_config
from toolweave.runtime.runs.progress import PROGRESS_KEY, RunProgress
from toolweave.runtime.runs.streams import INTERRUPT_KEY, GraphStream, ProtocolStream

# Of a state, to find the tasks that a graph refuses; each decodes the results of all.
MAX_STATE_READS = 64
CHECKPOINT_KEYS = frozenset({"checkpoint_id", "checkpoint_map"})


def is_written_by(found: StateSnapshot | CheckpointTuple, run: Run) -> bool:
    """Say whether a checkpoint is one of the run's own."""
    return (found.metadata or {}).get("run_id") == run.run_id


def continuation_call(call: GraphCall) -> GraphCall:
    """Give the call that goes on from the thread's newest checkpoint: the input is in there already.

    The checkpoint that the run forked from goes, too: its input and its steps would otherwise be lost.
    """
    configurable = {name: item for name, item in call.config["configurable"].items() if name not in CHECKPOINT_KEYS}
    config: RunnableConfig = {**call.config, "configurable": configurable}
    return replace(call, input=None, config=config)


async def is_waiting_or_done(graph: Graph, snapshot: StateSnapshot, call: GraphCall) -> bool:
    """Say whether an earlier attempt left nothing to execute: it was through, or only humans are waited for.

    An empty `next` does not say so: results that no checkpoint has taken up yet count as done there.
    """
    waiting = sum(1 for task in snapshot.tasks if task.interrupts)
    if not snapshot.tasks or (waiting > 0 and waiting == len(snapshot.next)):
        return True
    return await _is_at_breakpoint(graph, snapshot, call)


async def _is_at_breakpoint(graph: Graph, snapshot: StateSnapshot, call: GraphCall) -> bool:
    """Say whether the run's own newest checkpoint is one where a breakpoint stops it.

    Going on from there would count as a human's consent. A fork's first checkpoint is the exception: the run was
    asked to go on from it.
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


# Restarts of a healthy server count, too: the limit is for a run that takes its process down each time.
MAX_RUN_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class EngineRuntime:
    """What executing a run needs; opened once by the process."""

    persistence: Persistence
    graphs: GraphRegistry
    log: EventLog
    publishers: Publishers
    thread_hub: ThreadHub = field(default_factory=ThreadHub)


@dataclass(frozen=True, slots=True)
class Execution:
    """How an execution ended: what to write, and the JSON that waiters get."""

    outcome: Outcome
    body: bytes


async def execute_run(runtime: EngineRuntime, run: Run, channel: Channel, progress: RunProgress) -> Execution:
    """Execute a claimed run to its end; asyncio cancellation passes through, everything else becomes an outcome.

    A second or later attempt goes on from the checkpoint that an earlier one wrote (S-05).
    """
    publisher = await runtime.publishers.start_run(run)
    channel.start_attempt(run.attempt)
    runtime.log.publish(channel, "metadata", dumps({"run_id": run.run_id, "attempt": run.attempt}))
    try:
        if run.attempt > MAX_RUN_ATTEMPTS:
            raise RunAbandoned(f"The run was begun {MAX_RUN_ATTEMPTS} times and its process ended each time.")
        call = build_graph_call(run, await runtime.persistence.runs.credentials(run))
        opening = runtime.graphs.open(run.graph_id, call.config, access="threads.create_run", context=call.context)
        async with opening as graph:
            if run.attempt > 1:
                continued = await _continue_attempt(runtime, run, channel, graph, call, publisher)
                if isinstance(continued, Execution):
                    return continued
                call = continued
            call = replace(call, config=observed_config(graph, call.config, progress.observe))
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
        # A graph may raise anything: `sys.exit()`, a cancellation of something else that it waited for.
        if _is_external_stop(error):
            raise
        return await _failed_execution(runtime, run, channel, error)


async def _continue_attempt(
    runtime: EngineRuntime, run: Run, channel: Channel, graph: Graph, call: GraphCall, publisher: RunPublisher | None
) -> GraphCall | Execution:
    """Give the call that goes on where an earlier attempt stood, or the run's end when nothing is left to execute.

    The last values of an attempt that was through may have died with its process, so they are published again.
    """
    snapshot = await graph.aget_state(thread_config(run))
    if is_written_by(snapshot, run):
        if not await is_waiting_or_done(graph, snapshot, call):
            return continuation_call(call)
        execution = _execution_from_snapshot(snapshot, values=filter_output(graph, snapshot.values))
        if "values" in call.modes and (publisher is None or not publisher.publishes_all):
            runtime.log.publish(channel, "values", execution.body)
        return execution
    if await runtime.persistence.checkpointer.interrupted_again(run.thread_id, run.run_id):
        # Given once more, the answer it brought would answer the next question, too.
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
    """Say whether whoever executes the run has ended it, and not its graph."""
    task = asyncio.current_task()
    is_cancelled = task is None or task.cancelling() > 0
    return isinstance(error, GeneratorExit) or (is_cancelled and isinstance(error, asyncio.CancelledError))


async def _failed_execution(runtime: EngineRuntime, run: Run, channel: Channel, error: BaseException) -> Execution:
    logger.bind(run_id=run.run_id, thread_id=run.thread_id, graph_id=run.graph_id).opt(exception=error).error(
        "run failed: {}", type(error).__name__
    )
    described: JsonObject = loads(dumps(error))
    if advice := open_files_advice(error):
        described["message"] = f"{described['message']}. {advice}"
    final = await read_final_state(runtime, run, ThreadClaim.for_run(run), error)
    runtime.log.publish(channel, "error", dumps(described))
    if final is not None and isinstance(error, UnknownInterruptError):
        # Refused before anything was written (`strict_resume`): the questions are still there to be answered.
        outcome = replace(final, status="error", error=described)
    else:
        values = final.values_json if final is not None else None
        # A node beside the one that failed may have asked something, and still can be answered.
        waiting = final.interrupts if final is not None else {}
        outcome = Outcome("error", "error", values, waiting, error=described)
    return Execution(outcome, dumps({"__error__": described}))


async def end_cancelled(runtime: EngineRuntime, run: Run, action: CancelAction, reason: str | None = None) -> Execution:
    """Say how a cancelled run leaves its thread: state kept up to the last checkpoint, or rolled back (5.8).

    `why` is told in the thread's error and to the webhook.
    """
    claim = ThreadClaim.for_run(run)
    runtime.persistence.checkpointer.block_writes(claim)
    if action == "rollback":
        await runtime.persistence.checkpointer.roll_back_run(claim, run.run_id)
    final = await read_final_state(runtime, run, claim) or Outcome("interrupted", "idle")
    error = cancellation_error(action, reason)
    outcome = replace(final, status="interrupted", rolled_back=action == "rollback", error=error)
    if uses_protocol(run) and not outcome.interrupts:
        # Its clients take an interrupted thread for one that asks them something (12.9).
        outcome = replace(outcome, thread_status="idle")
    return Execution(outcome, outcome.values_json or b"null")


async def read_final_state(
    runtime: EngineRuntime, run: Run, claim: ThreadClaim, failure: BaseException | None = None
) -> Outcome | None:
    """Read how an ended run's thread stands now; None when the graph cannot say (it is gone, or fails here, too).

    What the graph cannot take is removed before, under the claim on the thread. `failure` is the error of a failed run.
    Values are `null` on a thread without a checkpoint.
    """
    config = thread_config(run)
    try:
        async with runtime.graphs.open(run.graph_id, config) as graph:
            await _remove_rejected_writes(graph, runtime.persistence.checkpointer, run, claim, failure)
            snapshot = await graph.aget_state(config)
        outcome = _execution_from_snapshot(snapshot).outcome
    except BaseException as unreadable:
        # The graph that failed may fail again here.
        if _is_external_stop(unreadable):
            raise
        logger.warning("the state of thread {} cannot be read: {}", run.thread_id, dumps(unreadable).decode())
        return None
    return outcome if snapshot.created_at else replace(outcome, values_json=b"null")


async def _remove_rejected_writes(
    graph: Graph, saver: RunAwareSaver, run: Run, claim: ThreadClaim, failure: BaseException | None
) -> None:
    """Remove from a run's thread what the graph cannot take, so that the next run can go on from there.

    LangGraph stores what a task or a Command wrote before it applies it. If a reducer then raises, or a pydantic state
    refuses the new values, it raises the same error whenever it reads the thread's state. The refused tasks have failed
    then. A run that failed before its first task leaves the thread as it was.
    """
    config = thread_config(run)
    # LangGraph does not wait for what it is storing when a Command is refused.
    saver.block_writes(claim)
    await saver.wait_for_writes()
    newest = await saver.aget_tuple(config)
    if failure is not None and newest is not None and not is_written_by(newest, run):
        # A task may fail with the words with which it failed before.
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
            # The state class refuses the checkpoint itself, and so what the tasks before it wrote.
            await saver.delete_checkpoint(claim, newest.config)
            newest = await saver.aget_tuple(config)
            if newest is None or not is_written_by(newest, run):
                await saver.roll_back_run(claim, run.run_id)
                continue
            tasks = _tasks_with_results(newest)
        for task in tasks:
            await saver.fail_task(claim, newest.config, task, error)


def _tasks_with_results(found: CheckpointTuple | None) -> list[str]:
    """List the tasks that wrote to channels, in the order in which LangGraph applies their writes."""
    writes = (found and found.pending_writes) or ()
    return list(dict.fromkeys(task for task, channel, _ in writes if channel not in WRITES_IDX_MAP))


async def _find_rejected_task(
    graph: Graph, saver: RunAwareSaver, config: RunnableConfig, tasks: list[str], reads: Iterator[int]
) -> list[str]:
    """Find the first task whose results the graph refuses after those before it; none if it refuses the checkpoint.

    If no reads are left, it may be any of those that are given.
    """

    async def refuses(some: list[str]) -> bool:
        seen = graph.copy(update={"checkpointer": TaskSubsetSaver(saver, some)})
        return await _state_read_error(seen, config) is not None

    good, bad = 0, len(tasks)
    if not tasks or await refuses([]):
        return []
    while bad - good > 1:
        if next(reads, None) is None:
            return tasks[good:]
        middle = (good + bad) // 2
        good, bad = (good, middle) if await refuses(tasks[:middle]) else (middle, bad)
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
    """Say whether a graph's output is its whole state; an output schema leaves some of it out."""
    keys = (graph.output_channels, graph.stream_channels_asis)
    output, state = ({key} if isinstance(key, str) else set(key) for key in keys)
    return output >= state


def filter_output(graph: Graph, values: Any) -> Any:
    """Give what a graph says it gives, of all that it keeps."""
    if outputs_whole_state(graph) or not isinstance(values, dict) or isinstance(graph.output_channels, str):
        return values
    return {name: values[name] for name in graph.output_channels if name in values}


def _execution_from_snapshot(snapshot: StateSnapshot, *, values: Any = None) -> Execution:
    """Say where a thread stands; `values` is what the run gave, for those who wait: without any, the state is."""
    state = dumps(snapshot.values)
    body = snapshot.values if values is None else values
    if snapshot.interrupts:
        # Until its first end, a graph of functions has no values.
        body = {**(body if isinstance(body, dict) else {}), INTERRUPT_KEY: list(snapshot.interrupts)}
    interrupts = interrupts_by_task(snapshot)
    status: ThreadStatus = "interrupted" if snapshot.next else "idle"
    outcome = Outcome("success", status, state, interrupts)
    return Execution(outcome, dumps(body))


async def read_states(graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
    """Read a thread's states, newest first; `wanted` are the arguments of LangGraph's `aget_state_history`."""
    found = []
    async for state in graph.aget_state_history(config, **options):
        found.append(state)
        # LangGraph decodes the next state without waiting for anything: others would wait for all of them.
        await asyncio.sleep(0)
    return found


def interrupts_by_task(snapshot: StateSnapshot) -> JsonObject:
    """Map task ids to the interrupts that wait there, as {id, value} (langgraph_api.md section 4)."""
    waiting = {
        task.id: [{"id": interrupt.id, "value": interrupt.value} for interrupt in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }
    # A value may hold messages and whatever else a graph has; what is stored and shown is its JSON.
    shown: JsonObject = loads(dumps(waiting))
    return shown


def thread_config(run: Run) -> RunnableConfig:
    """Point at the newest checkpoint of the run's thread."""
    return {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
