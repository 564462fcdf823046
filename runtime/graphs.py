"""Load the graphs that langgraph.json names and open them for a run, with the server's checkpointer and store."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from loguru import logger

from toolweave.errors import ConfigError, NotFound
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

    def metadata(self, graph_id: str) -> JsonObject:
        """Give what a graph says of itself by `with_config(metadata=…)`; its runs carry it. Empty for factories."""
        graph = self._graphs.get(graph_id)
        given = (graph.config or {}).get("metadata") if graph is not None else None
        return cast("JsonObject", loads(dumps(given))) if given else {}

    @asynccontextmanager
    async def open(self, graph_id: str, config: RunnableConfig | None = None) -> AsyncIterator[Graph]:
        """Open a graph for one use; a factory is called with the config. Raises NotFound."""
        graph = self._graphs.get(graph_id)
        if graph is not None:
            yield graph
            return
        factory = self._factories.get(graph_id)
        if factory is None:
            raise NotFound(f"Graph '{graph_id}' not found")
        async with _made(factory, config or {}) as made:
            yield self._attach(graph_id, made)

    def _attach(self, graph_id: str, value: object) -> Graph:
        graph = value.compile() if isinstance(value, StateGraph) else value
        if not isinstance(graph, Pregel):
            raise ConfigError(f"the factory of graph {graph_id!r} made a {type(graph).__name__}, not a graph.")
        if isinstance(graph.checkpointer, BaseCheckpointSaver):
            logger.warning("graph {} was compiled with a checkpointer of its own; the server's is used", graph_id)
        update: JsonObject = {"checkpointer": self._checkpointer, "store": self._store}
        if graph.name == UNNAMED:
            update["name"] = graph_id
        return graph.copy(update=update)


@asynccontextmanager
async def _made(factory: Callable[..., Any], config: RunnableConfig) -> AsyncIterator[object]:
    takes_config = any(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(factory).parameters.values()
    )
    made = factory(config) if takes_config else factory()
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with made as graph:
            yield graph
    elif isinstance(made, AbstractContextManager) and not isinstance(made, Pregel):
        with made as graph:
            yield graph
    else:
        yield made


def load_target(target: str, folder: Path) -> object:
    """Load `module:attribute` or `path/to/file.py:attribute` (relative to the folder of langgraph.json).

    Raises:
        ConfigError: the file, module or attribute does not exist, or importing it failed.
    """
    where, _, attribute = target.rpartition(":")
    if not where or not attribute:
        raise ConfigError(f"{target!r} names no attribute.", source="langgraph.json", fix="Write module:attribute.")
    try:
        module = _load_file(folder / where) if where.endswith(".py") or "/" in where else importlib.import_module(where)
    except (ImportError, OSError, SyntaxError) as error:
        fix = "Check the path, and that the application's dependencies are installed."
        raise ConfigError(f"cannot load {target!r}: {error}.", source="langgraph.json", fix=fix) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise ConfigError(f"{where!r} has no {attribute!r}.", source="langgraph.json") from error


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    name = f"_served_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
