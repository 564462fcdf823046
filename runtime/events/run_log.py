"""Log the events of runs: live ones from memory, resumable ones also on disk, replayed without a gap."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from toolweave.runtime.events.channel import Channel, LoggedEvent, event_id
from toolweave.runtime.models import JsonObject, Run
from toolweave.runtime.persistence.database import Database
from toolweave.runtime.persistence.events import StoredEvent, append_events, read_events

KEPT_SECONDS = 60.0
KEPT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """The events of one run, what it said of itself, and when they are forgotten."""

    events: Sequence[LoggedEvent]
    metadata: JsonObject
    size: int
    expiry: asyncio.TimerHandle


class EndedStreams:
    """The whole streams of the last ended runs, in memory: for `seconds`, and `most_bytes` of them together."""

    def __init__(self, *, seconds: float = KEPT_SECONDS, most_bytes: int = KEPT_BYTES) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._bytes = 0
        # Oldest first: each is kept for the same time.
        self._ended: dict[str, Ended] = {}

    def keep(self, run_id: str, events: Sequence[LoggedEvent], metadata: JsonObject) -> None:
        """Keep a run's events; the oldest ones make room."""
        self.forget(run_id)
        expiry = asyncio.get_running_loop().call_later(self._seconds, self.forget, run_id)
        kept = Ended(events, metadata, sum(len(event.data) for event in events), expiry)
        self._ended[run_id] = kept
        self._bytes += kept.size
        while self._bytes > self._most_bytes:
            self.forget(next(iter(self._ended)))

    def find(self, run_id: str) -> Sequence[LoggedEvent] | None:
        """Give a run's events in order, or None when they are not kept."""
        kept = self._ended.get(run_id)
        return None if kept is None else kept.events

    def metadata(self, run_id: str) -> JsonObject | None:
        """Give a run's metadata, by which it is known whose it was; None when its events are not kept."""
        kept = self._ended.get(run_id)
        return None if kept is None else kept.metadata

    def forget(self, run_id: str) -> None:
        """Drop a run's events."""
        kept = self._ended.pop(run_id, None)
        if kept is not None:
            kept.expiry.cancel()
            self._bytes -= kept.size

    def clear(self) -> None:
        """Drop everything."""
        for run_id in tuple(self._ended):
            self.forget(run_id)


FLUSH_SECONDS = 0.05
REPLAY_BATCH = 500


class EventLog:
    """Keep one channel per run that has not ended, and the stored events of resumable runs.

    Events reach listeners before their batch is on disk; `flush` puts the rest there, and the engine calls it
    before the run's final transaction, so that an ended run can always be replayed whole. After a kill, listeners may
    have received events of the last `flush_seconds` that no replay contains.
    """

    def __init__(self, database: Database, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._flush_seconds = flush_seconds
        self._channels: dict[str, Channel] = {}
        self._unstored: dict[str, list[LoggedEvent]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.ended = EndedStreams()

    def open(self, run_id: str, *, resumable: bool, created_at: datetime) -> Channel:
        """Open a run's channel; the same one when it is open already."""
        channel = self._channels.get(run_id)
        if channel is None:
            prefix = id_prefix(created_at) if resumable else None
            channel = self._channels[run_id] = Channel(run_id, id_prefix=prefix)
        return channel

    def live(self, run_id: str) -> Channel | None:
        """Give the channel of a run that has not ended."""
        return self._channels.get(run_id)

    def publish(self, channel: Channel, event: str, data: bytes) -> None:
        """Hand an event to the listeners and, for a resumable run, to the next batch for the disk."""
        logged = channel.publish(event, data)
        if channel.resumable:
            self._unstored.setdefault(channel.run_id, []).append(logged)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._flush_seconds, self.flush)

    def flush(self) -> None:
        """Queue everything unstored for the database writer, ahead of whatever is queued after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batches, self._unstored = self._unstored, {}
        stored = [
            StoredEvent(run_id, event.seq, event.event, event.data)
            for run_id, events in batches.items()
            for event in events
        ]
        if stored:
            self._database.write_soon(partial(append_events, events=stored))

    async def store(self, run_id: str) -> None:
        """Wait until all that a resumable run has published so far is on disk.

        To be done before a checkpoint is saved: what was done before it is not done again after a crash, so its events
        would be missing from every later replay.
        """
        channel = self._channels.get(run_id)
        if channel is None or not channel.resumable or channel.stored == channel.seq:
            return
        published = channel.seq
        self.flush()
        await self._database.write(_nothing)
        channel.stored = max(channel.stored, published)

    def close(self, run_id: str) -> None:
        """End the listeners of a run and forget its channel."""
        channel = self._channels.pop(run_id, None)
        if channel is not None:
            channel.close()

    async def replay(self, run_id: str, created_at: datetime, after: int) -> AsyncGenerator[Sequence[LoggedEvent]]:
        """Give a resumable run's events after a sequence number: the stored ones, then the live ones, no gap.

        What a killed process had published and not stored is not among them.

        Listening starts before the first read, and what is heard twice is told apart by its number.
        """
        channel = self._channels.get(run_id)
        heard = channel.listen() if channel is not None else None
        try:
            self.flush()
            async with aclosing(self._stored(run_id, created_at, after)) as stored:
                async for batch in stored:
                    after = batch[-1].seq
                    yield batch
            # Its row may have gone while the stored ones were read.
            gone = self.ended.find(run_id)
            if gone is not None:
                yield [event for event in gone if event.seq > after]
            elif heard is not None:
                async with aclosing(heard.batches()) as live:
                    async for batch in live:
                        # In the order of their numbers: once one is new, all that follow are.
                        yield batch if batch[0].seq > after else [event for event in batch if event.seq > after]
        finally:
            if heard is not None:
                heard.close()

    async def keep_ended(self, run: Run) -> None:
        """Keep the events of a run whose row is about to be deleted, for those who come back for the rest."""
        self.flush()
        async with aclosing(self._stored(run.run_id, run.created_at, 0)) as stored:
            events = [event async for batch in stored for event in batch]
        self.ended.keep(run.run_id, events, run.metadata)

    async def _stored(self, run_id: str, created_at: datetime, after: int) -> AsyncGenerator[list[LoggedEvent]]:
        # Through the writer, so that what was flushed a moment ago is seen.
        prefix = id_prefix(created_at)
        while True:
            read = partial(read_events, run_id=run_id, after=after, limit=REPLAY_BATCH)
            rows = await self._database.write(read)
            if rows:
                after = rows[-1].seq
                yield [LoggedEvent(row.seq, row.event, row.data, event_id(prefix, row.seq)) for row in rows]
            if len(rows) < REPLAY_BATCH:
                return


def _nothing(_: Connection) -> None:
    """Come after all that is queued."""


def id_prefix(created_at: datetime) -> str:
    """Give the part of the SSE ids that all events of a run share: its creation in epoch milliseconds."""
    return str(int(created_at.timestamp() * 1000))
