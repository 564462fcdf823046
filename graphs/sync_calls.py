"""Compile graphs of async nodes so that `invoke` and `stream` work, too (S-04).

Each node gets a synchronous form that runs it on the background loop. LangGraph's own synchronous loop does the rest,
so interrupts, tasks, checkpoints and streams are those of any synchronous graph.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from langgraph.typing import ContextT, InputT, OutputT, StateT

from toolweave.graphs.background_loop import background_loop, running_loop


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
