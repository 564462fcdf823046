"""Hear the custom events of a graph and of its sub-graphs, whichever stream modes are asked for.

LangGraph drops them unless somebody asks for the stream mode `custom`, those of sub-graphs unless they are streamed,
too. Asking would cost every graph a task per step, and every sub-graph its chunks.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from toolweave.runtime.graphs import Graph

# Where a graph that is run by something else looks for the runtime that it goes on with.
RUNTIME_KEY = "__pregel_runtime"

Hear = Callable[[object], None]


@dataclass(kw_only=True, slots=True, frozen=True)
class HeardRuntime(Runtime[Any]):  # type: ignore[misc]  # Runtime is frozen, by arguments that cannot be read
    """A runtime whose stream writer lets `hear` know first; what is merged with it is heard, too."""

    hear: Hear

    def merge(self, other: Runtime[Any]) -> "HeardRuntime":
        """Merge as any runtime does."""
        merged = Runtime.merge(self, other)
        hear, write = self.hear, merged.stream_writer

        def heard(event: Any) -> None:
            hear(event)
            write(event)

        parts = {field.name: getattr(merged, field.name) for field in fields(merged)}
        return HeardRuntime(**{**parts, "stream_writer": heard, "hear": hear})


def heard_config(graph: Graph, config: RunnableConfig, hear: Hear) -> RunnableConfig:
    """Give the config with which a graph is heard, in the thread of the node that writes."""
    runtime = HeardRuntime(store=graph.store, hear=hear)
    return {**config, "configurable": {**config["configurable"], RUNTIME_KEY: runtime}}
