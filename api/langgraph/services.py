"""The services that handlers of the LangGraph API share: persistence, graphs, run engine, webhook rules."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from starlette.requests import Request

from toolweave.api.langgraph.requests import is_uuid
from toolweave.api.langgraph.webhooks import WebhookRules
from toolweave.api.langgraph_client import SERVER_APP_KEY
from toolweave.config.langgraph_json import CheckpointerEntry, LangGraphJson
from toolweave.config.settings import Settings
from toolweave.errors import InvalidRequest, NotFound
from toolweave.extras import require_extra
from toolweave.runtime.events.log import EventLog, ThreadLog
from toolweave.runtime.events.run_publisher import Publishers
from toolweave.runtime.graphs import GraphRegistry, load_graph
from toolweave.runtime.models import Assistant, ThreadTtl
from toolweave.runtime.persistence.data_folder import Persistence, open_persistence
from toolweave.runtime.persistence.database import PostgresAddress
from toolweave.runtime.persistence.store import build_store_options
from toolweave.runtime.priority import AssignPriority, load_priority
from toolweave.runtime.runs.cleanup import SweepOptions, delete_orphans, run_expiry_sweep
from toolweave.runtime.runs.embedded import open_engine
from toolweave.runtime.runs.engine import RunEngine
from toolweave.runtime.runs.execution import EngineRuntime, OpenTrace, untraced

# A process on PostgreSQL changes the time of this file in the data folder each second, for probes.
ALIVE_FILE = "toolweave.alive"


@dataclass(frozen=True, slots=True)
class ApiServices:
    """The shared services of handlers."""

    persistence: Persistence
    graphs: GraphRegistry
    engine: RunEngine
    webhooks: WebhookRules
    assign_priority: AssignPriority | None = None

    async def find_assistant(self, name_or_id: str) -> Assistant:
        """Return the assistant that a run names, by UUID or graph name.

        Raises:
            InvalidRequest: the text is neither a UUID nor the name of a graph.
            NotFound: no assistant has this UUID.
        """
        from_name = name_or_id in self.graphs.graph_ids()
        if not from_name and not is_uuid(name_or_id):
            raise InvalidRequest(
                f"Invalid assistant: '{name_or_id[:200]}'. Must be either:\n- A valid assistant UUID, or\n"
                f"- One of the registered graphs: {', '.join(self.graphs.graph_ids())}"
            )
        return await self.persistence.assistants.resolve(name_or_id)

    def require_graph(self, graph_id: str) -> None:
        """Raise NotFound unless this server serves the graph."""
        if graph_id not in self.graphs.graph_ids():
            raise NotFound(f"Graph '{graph_id[:200]}' not found. Expected one of: {sorted(self.graphs.graph_ids())}")


def get_services(request: Request) -> ApiServices:
    """Return the services of the server that received the request."""
    return cast("ApiServices", request.scope[SERVER_APP_KEY].state.services)


def default_ttl(entry: CheckpointerEntry) -> ThreadTtl | None:
    """Return the time to live that langgraph.json sets for threads created without one."""
    if entry.ttl is None or entry.ttl.default_ttl is None:
        return None
    return ThreadTtl(entry.ttl.default_ttl, entry.ttl.strategy)


def sweep_schedule(entry: CheckpointerEntry) -> SweepOptions:
    """Return when expired threads are swept, also without a `ttl` section: threads can have their own."""
    if entry.ttl is None:
        return SweepOptions()
    minutes = entry.ttl.sweep_interval_minutes
    return SweepOptions(SweepOptions().every if minutes is None else timedelta(minutes=minutes), entry.ttl.sweep_limit)


@asynccontextmanager
async def open_services(config: LangGraphJson, settings: Settings, *, slots: int) -> AsyncIterator[ApiServices]:
    """Open the database, load the graphs and create their assistants; unfinished runs wait for `recover` (S-05).

    This process executes up to `slots` runs at a time; 0, with PostgreSQL only, leaves them to other processes.

    Raises:
        ConfigError: a graph or the priority function that langgraph.json names cannot be loaded.
        PersistenceError: the database cannot be used, or another process has locked the data folder.
    """
    async with AsyncExitStack() as stack:
        targets = {name: load_graph(config, name) for name in config.graphs}
        assign_priority = load_priority(config)
        persistence = await stack.enter_async_context(_open_persistence(config, settings))
        descriptions = {name: entry.description for name, entry in config.graphs.items()}
        graphs = GraphRegistry(targets, descriptions, checkpointer=persistence.checkpointer, store=persistence.store)
        await persistence.assistants.sync_system(graphs.descriptions(), graphs.compiled_names())
        open_trace = await stack.enter_async_context(_open_tracing(settings))
        engine = await stack.enter_async_context(_open_engine(persistence, graphs, settings, slots, open_trace))
        await stack.enter_async_context(run_expiry_sweep(engine, sweep_schedule(config.checkpointer)))
        yield ApiServices(persistence, graphs, engine, WebhookRules.from_config(config, settings), assign_priority)


def _open_persistence(config: LangGraphJson, settings: Settings) -> AbstractAsyncContextManager[Persistence]:
    store_options = build_store_options(config.store, config.path.parent)
    thread_ttl = default_ttl(config.checkpointer)
    token_key = settings.token_key.get_secret_value() if settings.token_key else None
    if settings.database_url is None:
        return open_persistence(
            settings.data_dir,
            address=f"http://{settings.host}:{settings.port}",
            store_options=store_options,
            thread_ttl=thread_ttl,
            token_key=token_key,
        )
    from toolweave.runtime.persistence.postgres.opening import open_shared_persistence  # noqa: PLC0415

    return open_shared_persistence(
        PostgresAddress(settings.database_url, settings.database_direct_url),
        settings.data_dir,
        size=settings.database_pool_size,
        store_options=store_options,
        thread_ttl=thread_ttl,
        token_key=token_key,
    )


def _open_tracing(settings: Settings) -> AbstractAsyncContextManager[OpenTrace]:
    if settings.traces_url is None:
        return nullcontext(untraced)
    require_extra("otel")
    from toolweave.runtime.runs.tracing import open_tracing  # noqa: PLC0415

    return open_tracing(settings.traces_url, with_content=settings.otel_content)


@asynccontextmanager
async def _open_engine(
    persistence: Persistence, graphs: GraphRegistry, settings: Settings, slots: int, open_trace: OpenTrace
) -> AsyncIterator[RunEngine]:
    if settings.database_url is None:
        await delete_orphans(persistence)
        log = EventLog(persistence.app)
        publishers = Publishers(ThreadLog(persistence.app))
        runtime = EngineRuntime(persistence, graphs, log, publishers, open_trace=open_trace)
        async with open_engine(runtime, max_concurrent=slots) as embedded:
            yield embedded
        return
    from toolweave.runtime.persistence.postgres.workers import WorkerOptions  # noqa: PLC0415
    from toolweave.runtime.runs.distributed import open_distributed_engine  # noqa: PLC0415

    options = WorkerOptions(
        slots=slots,
        address=PostgresAddress(settings.database_url, settings.database_direct_url),
        lease_s=settings.worker_lease_s,
        drain_s=settings.drain_timeout_s,
        event_retention_s=settings.event_retention_h * 3600,
        alive_file=settings.data_dir / ALIVE_FILE,
    )
    async with open_distributed_engine(persistence, graphs, options, open_trace) as engine:
        yield engine
