"""Wake up other processes by PostgreSQL's NOTIFY: a hint that something has changed, with ids and no data.

Notifications can be lost, so every waiter also reads the database at intervals. A process has one connection that
listens, and distributes the topics in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from loguru import logger
from psycopg import sql
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from toolweave.runtime.background import background_task

CHANNEL = "toolweave"
SEPARATOR = ","
# PostgreSQL allows 8000 bytes.
MAX_PAYLOAD_CHARS = 7900
RECONNECT_DELAY_S = 0.5
# Receives the topics of one notification; an empty list after a reconnection, when any topic may have been missed.
OnTopics = Callable[[list[str]], None]


class Wakeups:
    """Publish topics to all processes of the database, and receive theirs; a process receives its own, too."""

    def __init__(self, pool: "AsyncConnectionPool[Any]", url: str, arguments: dict[str, Any]) -> None:
        self._pool = pool
        self._url = url
        self._arguments = arguments
        self._topics: dict[str, None] = {}
        self._sender: asyncio.Task[None] | None = None
        self._listeners: set[OnTopics] = set()
        self._is_listening = asyncio.Event()

    def publish(self, topics: Iterable[str]) -> None:
        """Send topics soon, together with all others that are published until then."""
        self._topics.update(dict.fromkeys(topics))
        if self._topics and self._sender is None:
            self._sender = asyncio.create_task(self._send(), name="wakeups")

    def add_listener(self, listener: OnTopics) -> None:
        """Call `listener` with the topics of each notification, on the event loop."""
        self._listeners.add(listener)

    def remove_listener(self, listener: OnTopics) -> None:
        """Stop calling a listener."""
        self._listeners.discard(listener)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Receive notifications inside the block; at its end send what is unsent."""
        async with background_task(self._listen(), "wakeups-listen"):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_listening.wait(), 5)
            try:
                yield
            finally:
                if self._sender is not None:
                    await self._sender

    async def _send(self) -> None:
        # Not in the transactions: a NOTIFY holds a lock of the whole database until its transaction is on disk.
        try:
            while self._topics:
                payload = self._take_payload()
                async with self._pool.connection() as connection:
                    await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
        except (psycopg.Error, PoolTimeout) as error:
            logger.debug("a notification could not be sent: {}", error)
        finally:
            self._sender = None

    def _take_payload(self) -> str:
        taken: list[str] = []
        length = 0
        while self._topics:
            topic = next(iter(self._topics))
            length += len(topic) + 1
            if length > MAX_PAYLOAD_CHARS and taken:
                break
            del self._topics[topic]
            taken.append(topic)
        return SEPARATOR.join(taken)

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, **self._arguments
                ) as connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                    self._is_listening.set()
                    self._deliver([])
                    async for notification in connection.notifies():
                        self._deliver(notification.payload.split(SEPARATOR))
            except psycopg.Error as error:
                self._is_listening.clear()
                logger.warning("notifications of the database are not received: {}. Trying again.", error)
            await asyncio.sleep(RECONNECT_DELAY_S)

    def _deliver(self, topics: list[str]) -> None:
        for listener in tuple(self._listeners):
            listener(topics)
