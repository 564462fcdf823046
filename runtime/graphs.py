"""Keep the graphs that langgraph.json names and open them for a use, with the server's checkpointer and store."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk.runtime import AccessContext
from loguru import logger

from toolweave.errors import ConfigError, NotFound
from toolweave.runtime.caller import USER, User, current_caller
from toolweave.runtime.graph_factories import GraphUse, made_by
from toolweave.runtime.models import JsonObject
from toolweave.runtime.streaming.codec import dumps, loads

Graph = Pregel[Any, Any, Any, Any]
UNNAMED = "LangGraph"


class GraphRegistry:
    """Know every served graph by its id; `open` gives it ready to run."""

    def __init__(
        self,
        loaded: Mapping[str, object],
        descriptions: Mapping[str, str | None],
        *,
        checkpointer: "BaseCheckpointSaver[Any]",
        store: BaseStore,
    ) -> None:
        self._checkpointer = checkpointer
        self._store = store
        self._descriptions = dict(descriptions)
        self._factories: dict[str, Callable[..., Any]] = {}
        self._graphs: dict[str, Graph] = {}
        self._warned: set[tuple[str, str]] = set()
        for graph_id, value in loaded.items():
            if isinstance(value, Pregel | StateGraph):
                self._graphs[graph_id] = self._attach(graph_id, value)
            elif callable(value):
                self._factories[graph_id] = value
            else:
                raise ConfigError(
                    f"graph {graph_id!r} is a {type(value).__name__}, not a graph or a function that makes one.",
                    source="langgraph.json",
                    fix="Name a compiled graph, a StateGraph or a factory.",
                )

    def names(self) -> list[str]:
        """List the graph ids in the order of langgraph.json."""
        return list(self._descriptions)

    def descriptions(self) -> dict[str, str | None]:
        """Give each graph's description, None where langgraph.json has none."""
        return dict(self._descriptions)

    def given_names(self) -> dict[str, str]:
        """Give the names of graphs by id, as they were compiled; factories' graphs have none before they are made."""
        return {graph_id: graph.name for graph_id, graph in self._graphs.items()}

    def metadata(self, graph_id: str) -> JsonObject:
        """Give what a graph says of itself by `with_config(metadata=…)`; its runs carry it. Empty for factories."""
        graph = self._graphs.get(graph_id)
        given = (graph.config or {}).get("metadata") if graph is not None else None
        return cast("JsonObject", loads(dumps(given))) if given else {}

    @asynccontextmanager
    async def open(
        self,
        graph_id: str,
        config: RunnableConfig | None = None,
        *,
        access: AccessContext = "threads.read",
        context: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Graph]:
        """Open a graph for one use; a factory is called for it with what it asks for. Raises NotFound."""
        graph = self._graphs.get(graph_id)
        if graph is not None:
            yield graph
            return
        factory = self._factories.get(graph_id)
        if factory is None:
            raise NotFound(f"Graph '{graph_id}' not found")
        config = config or {}
        async with made_by(factory, GraphUse(access, config, _user(config), self._store, context)) as made:
            yield self._attach(graph_id, made)

    def _attach(self, graph_id: str, value: object) -> Graph:
        graph = value.compile() if isinstance(value, StateGraph) else value
        if not isinstance(graph, Pregel):
            raise ConfigError(f"the factory of graph {graph_id!r} made a {type(graph).__name__}, not a graph.")
        if isinstance(graph.checkpointer, BaseCheckpointSaver):
            self._warn_of_own(graph_id, "checkpointer")
        if graph.store is not None:
            self._warn_of_own(graph_id, "store")
        update: JsonObject = {"checkpointer": self._checkpointer, "store": self._store}
        if graph.name == UNNAMED:
            update["name"] = graph_id
        return graph.copy(update=update)

    def _warn_of_own(self, graph_id: str, part: str) -> None:
        # Once: a factory's graph is attached at every use.
        if (graph_id, part) not in self._warned:
            self._warned.add((graph_id, part))
            logger.warning("graph {} was compiled with a {} of its own; the server's is used", graph_id, part)


def _user(config: RunnableConfig) -> User | None:
    """Give the user a run was created by, or who asks now."""
    of_run = (config.get("configurable") or {}).get(USER)
    return of_run if isinstance(of_run, User) else current_caller().user
