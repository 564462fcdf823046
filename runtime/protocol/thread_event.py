"""Hold one event of a thread as it is sent, beside what subscriptions ask for."""

from dataclasses import dataclass

from toolweave.runtime.persistence.thread_events import StoredThreadEvent
from toolweave.runtime.protocol.modes import method_of
from toolweave.runtime.streaming.channel import LoggedEvent
from toolweave.runtime.streaming.codec import dumps, loads

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What is to be told; `data` is JSON. Without an id it gets one of its own; `detail` see `modes.EVERYTHING`."""

    run_id: str
    channel: str
    namespace: Namespace
    data: bytes
    event_id: str | None = None
    detail: bool = False


@dataclass(frozen=True, slots=True)
class ThreadEvent:
    """An event with its number; `data` is the whole envelope as JSON."""

    seq: int
    run_id: str
    channel: str
    namespace: Namespace
    detail: bool
    data: bytes

    def logged(self) -> LoggedEvent:
        """Give the event as streams carry it: its method, and its number as the SSE id."""
        return LoggedEvent(self.seq, method_of(self.channel), self.data, str(self.seq))

    def stored(self, thread_id: str) -> StoredThreadEvent:
        """Give the event's row."""
        namespace = dumps(list(self.namespace)).decode()
        return StoredThreadEvent(thread_id, self.seq, self.run_id, self.channel, namespace, int(self.detail), self.data)


def numbered(new: NewEvent, seq: int, at_ms: int) -> ThreadEvent:
    """Put an event into its envelope: {type, event_id, seq, method, params: {namespace, timestamp, data}}."""
    head = dumps(
        {
            "type": "event",
            "event_id": new.event_id or f"{at_ms}-{seq}",
            "seq": seq,
            "method": method_of(new.channel),
            "params": {"namespace": list(new.namespace), "timestamp": at_ms},
        }
    )
    data = b'%b,"data":%b}}' % (head[:-2], new.data)
    return ThreadEvent(seq, new.run_id, new.channel, new.namespace, new.detail, data)


def from_row(row: StoredThreadEvent) -> ThreadEvent:
    """Make the event of a row."""
    return ThreadEvent(row.seq, row.run_id, row.channel, tuple(loads(row.namespace)), bool(row.detail), row.data)
