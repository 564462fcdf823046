"""Run coroutines for synchronous callers, all on one background event loop.

HTTP clients of model endpoints are bound to the loop of their first use. With one loop per call, the second call would
find their connections on a closed loop. The loop starts with the first call and stops when the process exits.

`compile_with_sync_calls` gives graphs of async nodes `invoke` and `stream`, too (S-04). Each node gets a synchronous
form that runs it on the background loop. LangGraph's own synchronous loop does the rest, so interrupts, tasks,
checkpoints and streams are those of any synchronous graph.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial, wraps
from typing import Any, Generic, TypeVar, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from langgraph.typing import ContextT, InputT, OutputT, StateT

T = TypeVar("T")
CLEANUP_TIMEOUT_S = 10.0
MAX_THREADS = 256
"""Threads for synchronous tools; those that call graphs wait for the tools of these."""


class BackgroundLoop:
    """An event loop on a daemon thread, started by the first call; at exit it cancels its work and waits for it."""

    def __init__(self) -> None:
        self.forget_loop()

    def forget_loop(self) -> None:
        """Let the next call start another loop: a forked process has none of its parent's threads."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` with the caller's context variables and return its result.

        An interrupt (Ctrl-C) cancels it and waits until it has cleaned up.

        Raises:
            RuntimeError: the caller runs on this loop, and would wait for itself.
        """
        loop = self._ensure_loop()
        if running_loop() is loop:
            work.close()
            raise RuntimeError("A synchronous call was made by code that another one awaits: use `await` there.")
        job = _Job(loop, work)
        try:
            job.start(copy_context())
            return job.future.result()
        except BaseException:
            if not job.future.done():
                job.cancel()
                wait([job.future], CLEANUP_TIMEOUT_S)
            raise

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], None]:
        """Start `work`, which has none of the caller's context variables; return a function that cancels it."""
        job = _Job(self._ensure_loop(), work)
        job.start(Context())
        return job.cancel

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                # Its handles keep the context of their creation, which may be a run's.
                self._loop = Context().run(asyncio.new_event_loop)
                self._loop.set_default_executor(ThreadPoolExecutor(MAX_THREADS))
                stopped = asyncio.Event()
                thread = threading.Thread(
                    target=_run_loop, args=(self._loop, stopped), name="toolweave-run-sync", daemon=True
                )
                thread.start()
                atexit.register(_stop_loop, self._loop, stopped, thread)
            return self._loop


class _Job(Generic[T]):
    """Work on an event loop of another thread, and the future of its result."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self.future: Future[T] = Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def start(self, context: Context) -> None:
        # The task may run, and an interrupt arrive, before this call returns.
        self._loop.call_soon_threadsafe(self._start_task, context=context)

    def cancel(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel_work)

    def _start_task(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(partial(_transfer_result, self.future))

    def _cancel_work(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self.future.set_exception(CancelledError())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def require_no_event_loop(called: str, instead: str) -> None:
    """Check that no event loop runs in this thread: a blocking wait would stall it.

    Raises:
        RuntimeError: an event loop runs in this thread; the text names what to call instead.
    """
    if running_loop() is not None:
        raise RuntimeError(f"{called} was called inside a running event loop: use `{instead}` there.")


def _transfer_result(future: "Future[T]", task: "asyncio.Task[T]") -> None:
    if task.cancelled():
        future.set_exception(CancelledError())
    elif error := task.exception():
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _run_loop(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        until_stopped = runner.get_loop().create_task(stopped.wait())
        while not until_stopped.done():
            # A task that raises one of these passes it to its awaiter, and also out of the loop: the others continue.
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_until_complete(until_stopped)


def _stop_loop(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(stopped.set)
    thread.join(CLEANUP_TIMEOUT_S)


background_loop = BackgroundLoop()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=background_loop.forget_loop)


class SyncCallableGraph(CompiledStateGraph[StateT, ContextT, InputT, OutputT]):
    """A compiled graph that refuses a synchronous call which its checkpointer cannot serve."""

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Run the graph on this thread; `invoke` does it with this method.

        Raises:
            RuntimeError: the checkpointer can only be awaited.
        """
        _require_sync_checkpointer(self.checkpointer)
        return super().stream(*args, **kwargs)


def compile_with_sync_calls(
    graph: StateGraph[StateT, ContextT, InputT, OutputT], name: str, checkpointer: Checkpointer, store: BaseStore | None
) -> SyncCallableGraph[StateT, ContextT, InputT, OutputT]:
    """Compile a graph for synchronous and asynchronous calls; its nodes must not have LangGraph's `timeout`."""
    for spec in graph.nodes.values():
        node: Any = spec.runnable
        if node.func is None or isinstance(node, ToolNode):
            node.func = _sync_form(node.afunc)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name)
    # `compile` names its class, and copies of a graph have the class of their original.
    compiled.__class__ = SyncCallableGraph
    return cast("SyncCallableGraph[StateT, ContextT, InputT, OutputT]", compiled)


def _sync_form(node: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    @wraps(node)
    def run(*args: Any, **kwargs: Any) -> Any:
        return background_loop.run(cast("Coroutine[Any, Any, Any]", node(*args, **kwargs)))

    return run


def _require_sync_checkpointer(saver: Checkpointer) -> None:
    if not isinstance(saver, BaseCheckpointSaver):
        return
    # Savers with a `loop` run their synchronous methods there.
    loop = getattr(saver, "loop", None)
    is_reachable = loop is None or (loop.is_running() and loop is not running_loop())
    if not is_reachable or type(saver).get_tuple is BaseCheckpointSaver.get_tuple:
        raise RuntimeError(
            f"{type(saver).__name__} stores checkpoints asynchronously: use `await graph.ainvoke(…)` or "
            "`graph.astream(…)`, or a synchronous checkpointer, such as InMemorySaver or SqliteSaver."
        )
