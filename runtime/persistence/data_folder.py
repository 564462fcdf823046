"""Lock a data folder and open its databases: our tables, LangGraph's checkpoints and its store."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import aiosqlite

from toolweave.encryption import TextCipher, data_folder_cipher
from toolweave.errors import DataFolderLocked, PersistenceError
from toolweave.files import FILE_MODE, make_data_folder, try_lock
from toolweave.runtime.models import ThreadTtl
from toolweave.runtime.persistence.assistants import AssistantRepository
from toolweave.runtime.persistence.checkpoints.saver import RunAwareSaver
from toolweave.runtime.persistence.checkpoints.sqlite_saver import SqliteRunSaver, create_kept_writes_table
from toolweave.runtime.persistence.crons import CronRepository
from toolweave.runtime.persistence.database import (
    BUSY_TIMEOUT_S,
    RuntimeDatabase,
    SqliteDatabase,
    open_sqlite,
    translate_errors,
)
from toolweave.runtime.persistence.runs import RunRepository
from toolweave.runtime.persistence.schema import upgrade_schema
from toolweave.runtime.persistence.search import json_contains
from toolweave.runtime.persistence.store import LongTermStore, StoreOptions, open_store
from toolweave.runtime.persistence.threads import ThreadClaim, ThreadClaims, ThreadRepository
from toolweave.runtime.persistence.webhooks import WebhookRepository

LOCK_FILE = "toolweave.lock"


@contextmanager
def data_folder_lock(data_dir: Path, address: str | None = None) -> Iterator[None]:
    """Lock the folder; the operating system releases the lock when the process ends, even by a crash.

    The lock file is not removed: otherwise another process could lock a file that no longer has this name.

    Raises:
        DataFolderLocked: another process holds it.
        PersistenceError: the lock file cannot be written.
    """
    path = data_dir / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        raise PersistenceError(f"{path}: {error.strerror}. Make the data folder writable for this user.") from error
    try:
        _acquire_lock(descriptor, data_dir)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "address": address}).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int, data_dir: Path) -> None:
    try:
        is_locked = try_lock(descriptor)
    except OSError as error:
        raise PersistenceError(
            f"The data folder {data_dir} cannot be locked: {error.strerror}. Put it on a local disk."
        ) from error
    if not is_locked:
        raise DataFolderLocked(
            f"The data folder {data_dir} is in use by {_lock_holder(descriptor)}. Stop that process, or give this one "
            "another folder with --data-dir or TOOLWEAVE_DATA_DIR."
        )


def _lock_holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        serving = f" (serving on {holder['address']})" if holder["address"] else ""
        return f"process {holder['pid']}{serving}"
    except (ValueError, KeyError, TypeError):
        return "another process"


SQL_FUNCTIONS = {"json_contains": json_contains}


@dataclass(frozen=True, slots=True)
class Persistence:
    """The open databases of a data folder; each file has one writing connection (run_engine.md pitfall 7)."""

    app: RuntimeDatabase
    checkpointer: RunAwareSaver
    store: LongTermStore
    assistants: AssistantRepository
    threads: ThreadRepository
    runs: RunRepository
    claims: ThreadClaims
    crons: CronRepository
    webhooks: WebhookRepository

    @classmethod
    def of(
        cls,
        app: RuntimeDatabase,
        checkpointer: RunAwareSaver,
        store: LongTermStore,
        *,
        cipher: TextCipher,
        thread_ttl: ThreadTtl | None,
    ) -> Self:
        """Return the repositories of a database with its checkpoints and store."""
        return cls(
            app=app,
            checkpointer=checkpointer,
            store=store,
            assistants=AssistantRepository(app),
            threads=ThreadRepository(app, default_ttl=thread_ttl),
            runs=RunRepository(app, cipher=cipher, thread_ttl=thread_ttl),
            claims=ThreadClaims(app),
            crons=CronRepository(app, cipher),
            webhooks=WebhookRepository(app),
        )

    async def delete_history(self, claim: ThreadClaim) -> None:
        """Delete all of a thread's checkpoints but the newest of each namespace. Raises ClaimLost."""
        await self.checkpointer.prune_older(claim.thread_id, claim)

    async def delete_thread_contents(self, claim: ThreadClaim) -> None:
        """Delete a thread's stored tool results and checkpoints (D-7). Raises ClaimLost.

        Call it before the thread's row is deleted, so that a crash leaves no orphans.
        """
        await self.checkpointer.require_claim(claim)
        await self.store.delete_thread_items(claim.thread_id)
        await self.checkpointer.adelete_thread(claim.thread_id, claim)

    async def delete_temporary_contents(self, thread_id: str) -> None:
        """Delete what a temporary run has left of its thread, whose row is deleted; no run can write there any more."""
        if isinstance(self.app, SqliteDatabase):
            await self.store.delete_thread_items(thread_id)
            await self.checkpointer.adelete_thread(thread_id)

    async def copy_thread_contents(self, source: str, claim: ThreadClaim) -> None:
        """Copy a thread's checkpoints and their stored tool results to a claimed thread without checkpoints."""
        await self.store.copy_thread_items(source, claim.thread_id)
        await self.checkpointer.acopy_thread(source, claim.thread_id, claim)


@asynccontextmanager
async def open_persistence(
    data_dir: Path,
    *,
    exclusive: bool = True,
    address: str | None = None,
    store_options: StoreOptions = StoreOptions(),  # noqa: B008 - frozen
    thread_ttl: ThreadTtl | None = None,
    token_key: str | None = None,
) -> AsyncIterator[Persistence]:
    """Open app.db, checkpoints.db and store.db in a folder, creating and migrating them (S-05).

    `exclusive` locks the folder, which serve, dev and worker must do; the error of a second process names `address`.
    Threads without a requested time to live get `thread_ttl`. Callers' credentials are encrypted with `token_key`, or
    with a key file in the folder.

    Raises:
        DataFolderLocked: another process holds the folder.
        NewerSchema: a newer Toolweave has written app.db.
        PersistenceError: the folder or a file in it cannot be used.
    """
    make_folder(data_dir)
    app_path, cipher = data_dir / "app.db", data_folder_cipher(data_dir, token_key)
    async with AsyncExitStack() as stack:
        if exclusive:
            stack.enter_context(data_folder_lock(data_dir, address))
        app = await stack.enter_async_context(
            open_sqlite(app_path, partial(upgrade_schema, str(app_path), cipher=cipher), functions=SQL_FUNCTIONS)
        )
        checkpointer = await stack.enter_async_context(_open_checkpointer(data_dir / "checkpoints.db"))
        store = await stack.enter_async_context(open_store(data_dir / "store.db", store_options))
        persistence = Persistence.of(app, checkpointer, store, cipher=cipher, thread_ttl=thread_ttl)
        if exclusive:
            # Claims of an earlier process.
            await persistence.claims.release_all()
        yield persistence


def make_folder(data_dir: Path) -> None:
    """Create the data folder, private to its owner. Raises PersistenceError."""
    try:
        make_data_folder(data_dir)
    except OSError as error:
        raise PersistenceError(
            f"The data folder {data_dir} cannot be created: {error.strerror}. Name another one with --data-dir or "
            "TOOLWEAVE_DATA_DIR."
        ) from error


@asynccontextmanager
async def _open_checkpointer(path: Path) -> AsyncIterator[SqliteRunSaver]:
    async with open_sqlite(path, create_kept_writes_table) as database, _open_connection(path) as connection:
        saver = SqliteRunSaver(connection, database)
        with translate_errors(path):
            await saver.setup()
            await connection.execute("PRAGMA query_only=ON")
        yield saver


@asynccontextmanager
async def _open_connection(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    with translate_errors(path):
        connection = await aiosqlite.connect(path, timeout=BUSY_TIMEOUT_S)
    try:
        with translate_errors(path):
            await connection.execute("PRAGMA journal_mode=WAL")
            await connection.execute("PRAGMA synchronous=NORMAL")
        yield connection
    finally:
        await connection.close()
