"""Import the graphs listed in langgraph.json and open them with the server's checkpointer and store."""

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk.runtime import AccessContext, ServerRuntime, _ExecutionRuntime, _ReadRuntime
from loguru import logger
from pydantic import BaseModel

from toolweave.config.langgraph_json import LangGraphJson
from toolweave.errors import ConfigError, NotFound
from toolweave.runtime.caller import USER_KEY, User, current_caller
from toolweave.runtime.codec import dumps, loads
from toolweave.runtime.models import JsonObject

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FactoryInputs:
    """The values that a graph factory may receive; `context` is only set for `threads.create_run`."""

    access: AccessContext
    config: RunnableConfig
    user: User | None
    store: BaseStore
    context: Mapping[str, Any] | None = None


@asynccontextmanager
async def call_factory(factory: Callable[..., Any], inputs: FactoryInputs) -> AsyncIterator[object]:
    """Call a graph factory and yield its graph.

    The factory is a function or coroutine function that returns a graph or a context manager of one.
    """
    positional, kwargs = _factory_arguments(factory, inputs)
    result = factory(*positional, **kwargs)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AbstractAsyncContextManager):
        async with result as graph:
            yield graph
    elif isinstance(result, AbstractContextManager) and not isinstance(result, Pregel):
        with result as graph:
            yield graph
    else:
        yield result


def _factory_arguments(factory: Callable[..., Any], inputs: FactoryInputs) -> tuple[list[Any], dict[str, Any]]:
    """Choose arguments by annotation, then by name; the first required parameter without a match gets the config."""
    hints = _type_hints(factory)
    positional: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in inspect.signature(factory).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if _is_runtime_type(hint) or (hint is None and parameter.name == "runtime"):
            value: Any = _build_runtime(inputs, hint)
        elif hint is RunnableConfig or parameter.name == "config" or _takes_config(parameter, positional, kwargs):
            value = inputs.config
        else:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            kwargs[parameter.name] = value
    return positional, kwargs


def _takes_config(parameter: inspect.Parameter, positional: list[Any], kwargs: dict[str, Any]) -> bool:
    return parameter.default is parameter.empty and not positional and not kwargs


def _type_hints(factory: Callable[..., Any]) -> dict[str, Any]:
    target = factory if inspect.isroutine(factory) else type(factory).__call__
    try:
        return get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        # Some names are only imported for type checkers.
        return {}


def _is_runtime_type(hint: Any) -> bool:
    kinds = (ServerRuntime, _ExecutionRuntime, _ReadRuntime)
    return any(hint is kind or get_origin(hint) is kind for kind in kinds)


def _build_runtime(inputs: FactoryInputs, hint: Any) -> "_ExecutionRuntime[Any] | _ReadRuntime[Any]":
    if inputs.access != "threads.create_run":
        return _ReadRuntime(access_context=inputs.access, user=inputs.user, store=inputs.store)
    (schema, *_) = get_args(hint) or (None,)
    context = _typed_context(schema, inputs.context)
    return _ExecutionRuntime(access_context=inputs.access, user=inputs.user, store=inputs.store, context=context)


def _typed_context(schema: Any, context: Mapping[str, Any] | None) -> Any:
    """Convert the context to the annotated class, as LangGraph does for nodes."""
    if context is None or not isinstance(schema, type):
        return context
    if issubclass(schema, BaseModel) or is_dataclass(schema):
        return schema(**context)
    return context


Graph = Pregel[Any, Any, Any, Any]
DEFAULT_GRAPH_NAME = "LangGraph"


class GraphRegistry:
    """The served graphs by id; `open` yields one that is ready to run."""

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
                self._graphs[graph_id] = self._attach_persistence(graph_id, value)
            elif callable(value):
                self._factories[graph_id] = value
            else:
                raise ConfigError(
                    f"graph {graph_id!r} is a {type(value).__name__}, not a graph or a function that returns one.",
                    source="langgraph.json",
                    fix="Name a compiled graph, a StateGraph or a factory.",
                )

    def graph_ids(self) -> list[str]:
        """Return the graph ids in the order of langgraph.json."""
        return list(self._descriptions)

    def descriptions(self) -> dict[str, str | None]:
        """Return each graph's description, None where langgraph.json has none."""
        return dict(self._descriptions)

    def compiled_names(self) -> dict[str, str]:
        """Return graph ids with the names that the graphs were compiled with; factories are not included."""
        return {graph_id: graph.name for graph_id, graph in self._graphs.items()}

    def metadata(self, graph_id: str) -> JsonObject:
        """Return the metadata set by `with_config(metadata=…)`, which the graph's runs inherit; empty for factories."""
        graph = self._graphs.get(graph_id)
        metadata = (graph.config or {}).get("metadata") if graph is not None else None
        return cast("JsonObject", loads(dumps(metadata))) if metadata else {}

    @asynccontextmanager
    async def open(
        self,
        graph_id: str,
        config: RunnableConfig | None = None,
        *,
        access: AccessContext = "threads.read",
        context: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Graph]:
        """Open a graph for one use; a factory is called each time. Raises NotFound."""
        graph = self._graphs.get(graph_id)
        if graph is not None:
            yield graph
            return
        factory = self._factories.get(graph_id)
        if factory is None:
            raise NotFound(f"Graph '{graph_id}' not found")
        config = config or {}
        async with call_factory(factory, FactoryInputs(access, config, _user(config), self._store, context)) as opened:
            yield self._attach_persistence(graph_id, opened)

    def _attach_persistence(self, graph_id: str, value: object) -> Graph:
        graph = value.compile() if isinstance(value, StateGraph) else value
        if not isinstance(graph, Pregel):
            raise ConfigError(f"the factory of graph {graph_id!r} returned a {type(graph).__name__}, not a graph.")
        if isinstance(graph.checkpointer, BaseCheckpointSaver):
            self._warn_overridden(graph_id, "checkpointer")
        if graph.store is not None:
            self._warn_overridden(graph_id, "store")
        update: JsonObject = {"checkpointer": self._checkpointer, "store": self._store}
        if graph.name == DEFAULT_GRAPH_NAME:
            update["name"] = graph_id
        return graph.copy(update=update)

    def _warn_overridden(self, graph_id: str, part: str) -> None:
        # Warn once: a factory's graph is compiled again for each use.
        if (graph_id, part) not in self._warned:
            self._warned.add((graph_id, part))
            logger.warning("graph {} was compiled with a {}, which the server replaces by its own", graph_id, part)


def _user(config: RunnableConfig) -> User | None:
    """Return the user who created the run, otherwise the user of the current request."""
    of_run = (config.get("configurable") or {}).get(USER_KEY)
    return of_run if isinstance(of_run, User) else current_caller().user


def load_graph(config: LangGraphJson, graph_id: str) -> object:
    """Load a graph or its factory. Raises ConfigError."""
    target = config.graphs[graph_id].target
    return load_target(target, config.path.parent, what=f"graph {graph_id!r}", source=str(config.path))


def load_object(config: LangGraphJson, target: str, *, what: str, kind: type[T], fix: str) -> T:
    """Load the object that the entry `what` of langgraph.json names.

    Raises:
        ConfigError: it cannot be loaded or has another class; `fix` is the advice.
    """
    source = str(config.path)
    found = load_target(target, config.path.parent, what=what, source=source)
    if not isinstance(found, kind):
        problem = f"{what}: {target!r} is of the class {type(found).__name__}, not {kind.__name__}."
        raise ConfigError(problem, source=source, fix=fix)
    return found


def load_target(target: str, folder: Path, *, what: str = "", source: str = "langgraph.json") -> object:
    """Load `module:attribute` or `path/to/file.py:attribute` (relative to the folder of langgraph.json).

    In errors `what` names the entry, such as "graph 'agent'", and `source` the configuration file.

    Raises:
        ConfigError: the file, module or attribute does not exist, or the import failed for any reason.
    """
    path, _, attribute = target.rpartition(":")
    label = f"{what}: " if what else ""
    if not path or not attribute:
        raise ConfigError(f"{label}{target!r} names no attribute.", source=source, fix="Write module:attribute.")
    try:
        module = _load_file(folder / path) if path.endswith(".py") or "/" in path else importlib.import_module(path)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise ConfigError(f"{label}cannot load {target!r}: {_cause(error)}.", source=source, fix=_fix(error)) from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise ConfigError(f"{label}{path!r} has no {attribute!r}.", source=source) from error


def _cause(error: BaseException) -> str:
    """Describe an import error and the line of the imported code that raised it."""
    text = str(error).strip().rstrip(".")
    is_clear = text and isinstance(error, ImportError | OSError | SyntaxError)
    description = text if is_clear else f"{type(error).__name__}: {text}".rstrip(": ")
    ours = (__file__, importlib.__file__, "<")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    return f"{description} ({frames[-1].filename}:{frames[-1].lineno})" if frames else description


def _fix(error: BaseException) -> str:
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "Name it by its module instead of its file (package.module:name), or import by the package's name."
    if isinstance(error, ImportError | OSError):
        return "Check the path, and that the application's dependencies are installed."
    return "Correct the module; it must be importable without a server."


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    # The name is the same in every process: checkpoints refer to classes of values by module name.
    name = f"_served_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
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
