"""Turn a run's stored RunCreate fields into the arguments of a graph call.

LangGraph drops custom events unless the stream mode `custom` is requested, and those of subgraphs unless subgraphs are
streamed. Requesting both would cost each graph a task per step, and each subgraph its chunks; `observed_config` reads
custom events without them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Command, Send
from langgraph.version import __version__ as langgraph_version
from pydantic import BaseModel

from toolweave import __version__
from toolweave.runtime.caller import AUTH_KEYS, HEADERS, user_of_run
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import JsonObject, Run, run_identity
from toolweave.runtime.persistence.checkpoints.saver import CLAIM_KEY, FORKED_FROM_KEY, HEADERS_KEY
from toolweave.runtime.persistence.threads import ThreadClaim
from toolweave.runtime.runs.progress import requested_metadata

DEFAULT_STREAM_MODES = ("values",)


@dataclass(frozen=True, slots=True)
class GraphCall:
    """The arguments of one graph call, and the events to stream."""

    input: Any
    config: RunnableConfig
    context: JsonObject | None
    modes: tuple[str, ...]
    subgraphs: bool
    interrupt_before: Any
    interrupt_after: Any
    durability: Any
    # Checkpoints of a temporary thread are not streamed, because they are deleted with it.
    streams_checkpoints: bool = True


def build_graph_call(run: Run, credentials: JsonObject) -> GraphCall:
    """Build the call for a run; the command wins over the input (langgraph_api.md 5.3).

    `credentials` is the result of `Caller.credentials` of the run's caller.
    """
    kwargs = run.kwargs
    modes = kwargs.get("stream_mode") or DEFAULT_STREAM_MODES
    command = kwargs.get("command")
    return GraphCall(
        input=build_command(command) if command else kwargs.get("input"),
        config=build_config(run, credentials),
        context=kwargs.get("context") or None,
        modes=(modes,) if isinstance(modes, str) else tuple(modes),
        subgraphs=bool(kwargs.get("subgraphs")),
        interrupt_before=kwargs.get("interrupt_before"),
        interrupt_after=kwargs.get("interrupt_after"),
        durability=kwargs.get("durability") or "async",
        streams_checkpoints=not kwargs.get("temporary"),
    )


def build_command(command: Mapping[str, Any]) -> Command[Any]:
    """Build LangGraph's Command from its JSON form {update?, resume?, goto?}."""
    goto = command.get("goto")
    targets = goto if isinstance(goto, list) else [goto]
    update = command.get("update")
    if isinstance(update, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in update):
        update = [tuple(pair) for pair in update]
    return Command(
        update=update,
        resume=command.get("resume"),
        # None, not empty: then a resume on a new thread fails in the run, as in the official server (5.4).
        goto=None if goto is None else [_goto_target(target) for target in targets],
    )


def _goto_target(target: Any) -> Send | str:
    return Send(target["node"], target.get("input")) if isinstance(target, dict) else target


def build_config(run: Run, credentials: JsonObject) -> RunnableConfig:
    """Build the RunnableConfig: the caller's configuration, then the run's ids, which cannot be overridden."""
    base: dict[str, Any] = run.kwargs.get("config") or {}
    identity = run_identity(run)
    context = run.kwargs.get("context") or {}
    configured: dict[str, Any] = base.get("configurable") or {}
    headers: JsonObject = credentials.get(HEADERS, {})
    configurable = {"user_id": "", **context, **configured, **headers, **identity}
    if headers:
        configurable[HEADERS_KEY] = frozenset(headers.keys() - identity.keys())
    for name in AUTH_KEYS - configured.keys():
        configurable.pop(name, None)
    configurable |= user_of_run(configured, credentials)
    metadata = {
        **(base.get("metadata") or {}),
        **requested_metadata(run),
        "run_id": run.run_id,
        "run_attempt": run.attempt,
        "langgraph_version": langgraph_version,
        "langgraph_api_version": __version__,
        "langgraph_host": "self-hosted",
    }
    if "checkpoint_id" in configurable:
        configurable[FORKED_FROM_KEY] = configurable["checkpoint_id"]
    configurable[CLAIM_KEY] = ThreadClaim.for_run(run)
    config = RunnableConfig(configurable=configurable, metadata=metadata, run_id=UUID(run.run_id))
    passed = {name: base[name] for name in ("tags", "recursion_limit", "max_concurrency", "run_name") if name in base}
    return cast("RunnableConfig", {**config, **passed})


def build_context(graph: Graph, context: Mapping[str, Any] | None) -> JsonObject | None:
    """Return the values that the graph's context schema names, or all of them without a schema; None if empty.

    For a dataclass or a model, empty values are passed, so that its defaults apply and a missing field is an error.
    Other values are in `config.configurable`, which has the whole context.
    """
    schema = graph.context_schema
    values = dict(context or {})
    if not isinstance(schema, type):
        return values or None
    if issubclass(schema, BaseModel):
        allows_extra = schema.model_config.get("extra") is not None
        return values if allows_extra else _select_keys(values, {*schema.model_fields, *_field_aliases(schema)})
    if is_dataclass(schema):
        return _select_keys(values, {field.name for field in fields(schema) if field.init})
    return _select_keys(values, set(getattr(schema, "__annotations__", values))) or None


def _select_keys(values: JsonObject, names: set[str]) -> JsonObject:
    return {name: value for name, value in values.items() if name in names}


def _field_aliases(schema: type[BaseModel]) -> set[str]:
    found = (field.validation_alias or field.alias for field in schema.model_fields.values())
    return {alias for alias in found if isinstance(alias, str)}


# The configurable key under which LangGraph passes the parent's runtime to a subgraph.
RUNTIME_KEY = "__pregel_runtime"
EventObserver = Callable[[object], None]


@dataclass(kw_only=True, slots=True, frozen=True)
class ObservedRuntime(Runtime[Any]):  # type: ignore[misc]  # Runtime is frozen, by arguments that cannot be read
    """A LangGraph runtime whose stream writer calls `observer` first, also after a merge."""

    observer: EventObserver

    def merge(self, other: Runtime[Any]) -> "ObservedRuntime":
        """Merge like any runtime and observe the merged stream writer."""
        merged = Runtime.merge(self, other)
        observe, write = self.observer, merged.stream_writer

        def observed_write(event: Any) -> None:
            observe(event)
            write(event)

        parts = {field.name: getattr(merged, field.name) for field in fields(merged)}
        return ObservedRuntime(**{**parts, "stream_writer": observed_write, "observer": observe})


def observed_config(graph: Graph, config: RunnableConfig, observer: EventObserver) -> RunnableConfig:
    """Return a config that calls `observer` with each custom event, in the thread of the node that writes it."""
    runtime = ObservedRuntime(store=graph.store, observer=observer)
    return {**config, "configurable": {**config["configurable"], RUNTIME_KEY: runtime}}
