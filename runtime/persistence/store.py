"""LangGraph's long-term store in SQLite, for graphs and the API (langgraph_api.md section 2.6).

Each call is a job on the file's writer or reader thread. Concurrent calls only share a commit, so a failure affects one
call, no call waits for a lock, and the event loop never waits for the disk. `postgres_store` is its twin.
"""

import asyncio
import inspect
from abc import abstractmethod
from array import array
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)
from sqlalchemy import Connection

from toolweave.config.langgraph_json import StoreEntry, StoreIndexEntry
from toolweave.errors import ConfigError
from toolweave.runtime.background import background_task, clear_regularly
from toolweave.runtime.codec import to_json, utc_now
from toolweave.runtime.graphs import load_target
from toolweave.runtime.persistence import store_items
from toolweave.runtime.persistence.database import SqliteDatabase, driver_of, open_sqlite
from toolweave.runtime.persistence.store_filter import check_item_filter

WHOLE_VALUE_PATHS = ("$",)


@dataclass(frozen=True, slots=True)
class StoreIndex:
    """The embedding model, the length of its vectors, and the paths of a value that are embedded by default."""

    embeddings: Embeddings
    dims: int
    fields: Sequence[str] = WHOLE_VALUE_PATHS

    def extract_texts(self, value: Mapping[str, Any], paths: Sequence[str] | None) -> list[tuple[str, str]]:
        """Return the texts to embed as (field name, text); the names of a path with several texts are numbered."""
        found: list[tuple[str, str]] = []
        for path in self.fields if paths is None else paths:
            texts = get_text_at_path(value, path if path in WHOLE_VALUE_PATHS else tokenize_path(path))
            many = len(texts) > 1
            found.extend((f"{path}.{number}" if many else path, text) for number, text in enumerate(texts))
        return found

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Embed texts to store. Raises ConfigError for vectors of another length than `dims`."""
        if not texts:
            return []
        return [self._pack_vector(vector) for vector in await self.embeddings.aembed_documents(list(texts))]

    async def embed_query(self, text: str) -> bytes:
        """Return the packed vector of a search query. Raises ConfigError for a vector of another length than `dims`."""
        return self._pack_vector(await self.embeddings.aembed_query(text))

    def _pack_vector(self, vector: Sequence[float]) -> bytes:
        if len(vector) != self.dims:
            raise ConfigError(
                f"the embedding returned a vector of {len(vector)} numbers where dims is {self.dims}.",
                source="langgraph.json, store.index",
                fix=f"Set dims to {len(vector)} if the model always returns vectors of this length.",
            )
        return array("f", vector).tobytes()


SWEEP_INTERVAL_S = 300.0


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a store: semantic search, time to live of items (minutes, None: no limit), interval of sweeps."""

    index: StoreIndex | None = None
    default_ttl: float | None = None
    refresh_on_read: bool = True
    sweep_seconds: float = SWEEP_INTERVAL_S


class LongTermStore(BaseStore):
    """LangGraph's store in one of the databases; synchronous calls must not run on the event loop."""

    supports_ttl = True

    def __init__(self, options: StoreOptions, clock: Callable[[], datetime] = utc_now) -> None:
        self._index = options.index
        self._clock = clock
        self._shows_tool_results = True
        self._loop = asyncio.get_running_loop()
        self.ttl_config = TTLConfig(refresh_on_read=options.refresh_on_read, default_ttl=options.default_ttl)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: first the reads, in one snapshot, then the puts, in one transaction.

        Raises:
            InvalidNamespaceError: a label is empty or contains a period.
            ValueError: a filter has an unknown operator.
            InvalidRequest: a value is not JSON, or the database cannot store it.
            ConfigError: the embedding does not match langgraph.json.
            PersistenceError: the database cannot be used.
        """
        requested = list(ops)
        for op in requested:
            validate_op_namespace(op)
            if isinstance(op, SearchOp):
                check_item_filter(op.filter)
        results: list[Result] = [None] * len(requested)
        reads = {place: op for place, op in enumerate(requested) if not isinstance(op, PutOp)}
        if reads:
            for index, found in zip(reads, await self._read(list(reads.values())), strict=True):
                results[index] = found
        # The last put of an item wins.
        puts = {(op.namespace, op.key): op for op in requested if isinstance(op, PutOp)}
        if puts:
            await self._write(list(puts.values()))
        return results

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations like `abatch`, from another thread than the event loop's."""
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise asyncio.InvalidStateError(
                    "A synchronous store call would stop the server's event loop. In async code use the asynchronous "
                    "methods: `await store.aput(…)`, `await store.aget(…)`, `await store.asearch(…)`."
                )
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    def without_tool_results(self) -> Self:
        """Return a view for API clients, without the tool results that only a thread's own runs may read (D-7)."""
        view = copy(self)
        view._shows_tool_results = False  # noqa: SLF001 - of its own kind
        return view

    @abstractmethod
    async def sweep_ttl(self) -> int:
        """Delete expired items, which reads skip already; return how many."""

    @abstractmethod
    async def delete_thread_items(self, thread_id: str) -> None:
        """Delete the tool results of a thread."""

    @abstractmethod
    async def copy_thread_items(self, source: str, target: str) -> None:
        """Copy the tool results of a thread to another one."""

    @abstractmethod
    async def thread_ids(self) -> set[str]:
        """Return the ids of threads with stored tool results."""

    @abstractmethod
    async def _find(
        self, ops: Sequence[Op], vectors: Mapping[str, bytes], view: store_items.StoreView
    ) -> tuple[list[Result], list[store_items.ItemLifetime]]:
        """Return the results of reads, and the lifetimes that they must refresh; `vectors` by their query."""

    @abstractmethod
    async def _refresh_ttl(self, items: Sequence[store_items.ItemLifetime], now: datetime) -> None:
        """Restart the time to live of items that expire."""

    @abstractmethod
    async def _write_items(self, items: Sequence[store_items.ItemWrite], now: datetime) -> None:
        """Store and delete items with their vectors."""

    async def _read(self, ops: Sequence[Op]) -> list[Result]:
        vectors: dict[str, bytes] = {}
        if self._index is not None:
            queries = {op.query for op in ops if isinstance(op, SearchOp) and op.query}
            vectors = {query: await self._index.embed_query(query) for query in queries}
        now = self._clock()
        results, used = await self._find(ops, vectors, store_items.StoreView(now, self._shows_tool_results))
        if used:
            await self._refresh_ttl(used, now)
        return results

    async def _write(self, ops: Sequence[PutOp]) -> None:
        items = [
            store_items.ItemWrite(op.namespace, op.key, None if op.value is None else to_json(dict(op.value)), op.ttl)
            for op in ops
        ]
        if self._index is not None:
            items = await self._add_vectors(self._index, ops, items)
        await self._write_items(items, self._clock())

    async def _add_vectors(
        self, index: StoreIndex, ops: Sequence[PutOp], items: Sequence[store_items.ItemWrite]
    ) -> list[store_items.ItemWrite]:
        """Return the items with their vectors; embed the texts of all items at once."""
        texts = [_texts_to_embed(index, op) for op in ops]
        vectors = iter(await index.embed([text for found in texts for _, text in found]))
        return [
            replace(item, vectors=[(name, next(vectors)) for name, _ in found])
            for item, found in zip(items, texts, strict=True)
        ]


class SqliteStore(LongTermStore):
    """LangGraph's store in SQLite; open it with `open_store`."""

    def __init__(
        self, database: SqliteDatabase, options: StoreOptions, clock: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(options, clock)
        self._database = database

    async def sweep_ttl(self) -> int:
        """Delete expired items, which reads skip already; return how many."""
        return await self._database.write(partial(store_items.delete_expired, now=self._clock()))

    async def delete_thread_items(self, thread_id: str) -> None:
        """Delete the tool results of a thread; for most threads there are none, which costs no write."""
        if await self._database.read(partial(store_items.has_tool_results, thread_id=thread_id)):
            await self._database.write(partial(store_items.delete_tool_results, thread_id=thread_id))

    async def copy_thread_items(self, source: str, target: str) -> None:
        """Copy the tool results of a thread to another one."""
        if await self._database.read(partial(store_items.has_tool_results, thread_id=source)):
            await self._database.write(partial(store_items.copy_tool_results, source=source, target=target))

    async def thread_ids(self) -> set[str]:
        """Return the ids of threads with stored tool results."""
        return await self._database.read(store_items.threads_with_tool_results)

    async def _find(
        self, ops: Sequence[Op], vectors: Mapping[str, bytes], view: store_items.StoreView
    ) -> tuple[list[Result], list[store_items.ItemLifetime]]:
        return await self._database.read(partial(_read_ops, ops=ops, vectors=vectors, view=view))

    async def _refresh_ttl(self, items: Sequence[store_items.ItemLifetime], now: datetime) -> None:
        await self._database.write(partial(store_items.refresh_ttl, items=items, now=now))

    async def _write_items(self, items: Sequence[store_items.ItemWrite], now: datetime) -> None:
        await self._database.write(partial(store_items.write_items, items=items, now=now))


@asynccontextmanager
async def open_store(path: Path, options: StoreOptions) -> AsyncIterator[SqliteStore]:
    """Open the store's file, creating it if necessary; inside the block expired items are deleted at intervals.

    Raises:
        PersistenceError: the file cannot be used.
    """
    async with open_sqlite(path, _create_tables) as database:
        store = SqliteStore(database, options)
        async with sweep_regularly(store, options):
            yield store


def sweep_regularly(store: LongTermStore, options: StoreOptions) -> AbstractAsyncContextManager[None]:
    """Delete expired items at intervals inside the block."""
    texts = "{} expired store items deleted", "expired store items cannot be deleted yet: {}"
    return background_task(clear_regularly(store.sweep_ttl, options.sweep_seconds, *texts), "store-sweeper")


def _create_tables(connection: Connection) -> None:
    for statement in store_items.CREATE:
        driver_of(connection).execute(statement)


def _read_ops(
    connection: Connection, ops: Sequence[Op], vectors: Mapping[str, bytes], view: store_items.StoreView
) -> tuple[list[Result], list[store_items.ItemLifetime]]:
    driver = driver_of(connection)
    results: list[Result] = []
    used: list[store_items.ItemLifetime] = []
    for op in ops:
        found: Any
        lifetimes: list[store_items.ItemLifetime] = []
        if isinstance(op, GetOp):
            found, lifetimes = store_items.find_item(driver, op, view)
        elif isinstance(op, SearchOp):
            found, lifetimes = store_items.search_items(driver, op, view, vectors.get(op.query or ""))
        elif isinstance(op, ListNamespacesOp):
            found = store_items.find_namespaces(driver, op, view)
        else:
            raise TypeError(f"not a store operation: {type(op).__name__}")
        results.append(found)
        used.extend(lifetimes)
    return results, used


def _texts_to_embed(index: StoreIndex, op: PutOp) -> list[tuple[str, str]]:
    if op.value is None or op.index is False:
        return []
    return index.extract_texts(op.value, op.index)


# Provider prefixes of langchain's init_embeddings; other text before a colon is a module.
EMBEDDING_PROVIDERS = frozenset(
    {
        "azure_ai",
        "azure_openai",
        "bedrock",
        "cohere",
        "google_genai",
        "google_vertexai",
        "huggingface",
        "mistralai",
        "ollama",
        "openai",
        "openrouter",
    }
)
SECTION = "langgraph.json, store.index"


def build_store_options(entry: StoreEntry, folder: Path) -> StoreOptions:
    """Build the store's options from langgraph.json; paths are relative to `folder`.

    Raises:
        ConfigError: the embedding cannot be loaded or is not an embedding.
    """
    index = None if entry.index is None else _build_index(entry.index, folder)
    if entry.ttl is None:
        return StoreOptions(index)
    interval = entry.ttl.sweep_interval_minutes
    sweep_seconds = SWEEP_INTERVAL_S if interval is None else interval * 60
    return StoreOptions(index, entry.ttl.default_ttl, entry.ttl.refresh_on_read, sweep_seconds)


def _build_index(section: StoreIndexEntry, folder: Path) -> StoreIndex:
    return StoreIndex(_load_embeddings(section.embed, folder), section.dims, section.fields or WHOLE_VALUE_PATHS)


def _load_embeddings(embed: str, folder: Path) -> Embeddings:
    provider, _, _ = embed.partition(":")
    loaded: Any = embed if provider in EMBEDDING_PROVIDERS else load_target(embed, folder)
    if inspect.isclass(loaded) and issubclass(loaded, Embeddings):
        raise ConfigError(f"{embed!r} is a class.", source=SECTION, fix="Name an object made of it, or a function.")
    if not isinstance(loaded, Embeddings | str) and not callable(loaded):
        raise ConfigError(
            f"{embed!r} is a {type(loaded).__name__}, which cannot embed texts.",
            source=SECTION,
            fix="Name a function from a list of texts to a list of vectors, or an Embeddings object.",
        )
    try:
        # This imports langchain only for a provider: it is large, and few applications need it.
        return ensure_embeddings(loaded)
    except (ImportError, ValueError) as error:
        fix = f"Install langchain and langchain-{provider.replace('_', '-')}, or name a function of your own."
        raise ConfigError(f"{embed!r} cannot be used: {error}", source=SECTION, fix=fix) from error
