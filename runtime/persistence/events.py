"""Store the events of resumable runs and of threads, and read them back (langgraph_api.md 6.2, section 7)."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import insert  # with ON CONFLICT, also for SQLite

from toolweave.runtime.codec import from_json, to_json, to_micros, utc_now
from toolweave.runtime.models import JsonObject, StreamEvent, Watch
from toolweave.runtime.persistence.database import driver_of, is_sqlite, notify
from toolweave.runtime.persistence.schema import (
    FOLLOW_PREFIX,
    Statement,
    execute_on_postgresql,
    run_events,
    runs,
    thread_events,
    thread_sequences,
    threads,
)
from toolweave.runtime.persistence.store_items import tool_results_prefix

# The topics of notifications: a run has events or has ended; the process that executes a run has to read its row; a
# thread has events of the newer protocol; a thread has a new run, or one of its runs has ended; a thread is deleted; a
# cron has changed; there is a webhook to deliver.
RUN_TOPIC, CONTROL_TOPIC, PROTOCOL_TOPIC, THREAD_TOPIC, DELETED_TOPIC = "r", "c", "p", "t", "x"
CRON_TOPIC, WEBHOOK_TOPIC = "k", "h"
# Each attempt of a run numbers its events in its own block, so that ids sent before a crash, whose events were never
# stored, are not used again.
SEQS_PER_ATTEMPT = 100_000_000
# The number of the stored end of a run, larger than that of any event, because the number of attempts is limited.
END_SEQ, END_EVENT = 9_999_999_999, "end"
RUN_ID: BindParameter[str] = bindparam("run_id", type_=Text)
# One statement for many rows: after each statement the driver's thread has to wait for the interpreter lock again.
INSERT_EVENTS = "INSERT OR IGNORE INTO run_events (run_id, seq, event, data) VALUES "
ROWS_PER_STATEMENT = 250
run_exists = Statement(select(runs.c.run_id).where(runs.c.run_id == RUN_ID))
insert_end = Statement(
    insert(run_events).values(created_at=bindparam("now")).on_conflict_do_nothing(),
    ["run_id", "seq", "event", "data", "created_at"],
)
events_after = Statement(
    select(run_events)
    .where(run_events.c.run_id == RUN_ID, run_events.c.seq > bindparam("after"), run_events.c.seq < END_SEQ)
    .order_by(run_events.c.seq)
    .limit(bindparam("most"))
)


# An event is stored only while its attempt executes the run: a frozen process that wakes up late stores none. No row is
# locked: the events of each attempt have numbers of their own, and a later attempt's are larger.
APPEND_ON_POSTGRESQL = f"""
INSERT INTO run_events (run_id, seq, event, data, created_at)
SELECT e.run_id, e.seq, e.event, e.data, %(now)s
FROM unnest(%(run_ids)s::text[], %(seqs)s::bigint[], %(events)s::text[], %(data)s::bytea[])
    AS e(run_id, seq, event, data)
JOIN (
    SELECT run_id, attempt FROM runs WHERE run_id = ANY(%(run_ids)s) AND status = 'running'
) AS r ON r.run_id = e.run_id AND r.attempt = (e.seq - 1) / {SEQS_PER_ATTEMPT} + 1
ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants
DELETE_CONTENTS = """
WITH points AS (DELETE FROM checkpoints WHERE thread_id = %(thread_id)s),
    blobs AS (DELETE FROM checkpoint_blobs WHERE thread_id = %(thread_id)s),
    writes AS (DELETE FROM checkpoint_writes WHERE thread_id = %(thread_id)s),
    kept AS (DELETE FROM kept_writes WHERE thread_id = %(thread_id)s)
DELETE FROM store WHERE prefix = %(prefix)s
"""
APPEND_TO_THREADS = """
INSERT INTO thread_events (thread_id, seq, run_id, channel, namespace, detail, data)
SELECT e.thread_id, e.seq, e.run_id, e.channel, e.namespace, e.detail, e.data
FROM unnest(
    %(thread_ids)s::text[], %(seqs)s::bigint[], %(run_ids)s::text[], %(attempts)s::int[], %(channels)s::text[],
    %(namespaces)s::text[], %(details)s::int[], %(data)s::bytea[]
) AS e(thread_id, seq, run_id, attempt, channel, namespace, detail, data)
JOIN (
    SELECT run_id, attempt FROM runs WHERE run_id = ANY(%(run_ids)s) AND status = 'running'
) AS r ON r.run_id = e.run_id AND r.attempt = e.attempt
ON CONFLICT DO NOTHING
"""


end_of_run = Statement(select(run_events.c.data).where(run_events.c.run_id == RUN_ID, run_events.c.seq == END_SEQ))
is_thread_followed = Statement(
    select(threads.c.thread_id).where(
        threads.c.thread_id == bindparam("thread_id"), threads.c.followed_until > bindparam("now")
    )
)
requests_of_running = Statement(
    select(thread_events.c.run_id, thread_events.c.data).where(
        thread_events.c.thread_id == bindparam("thread_id"),
        thread_events.c.channel == literal_column("'input'"),
        exists().where(runs.c.run_id == thread_events.c.run_id, runs.c.status == literal_column("'running'")),
    )
)


def append_events(connection: Connection, events: Sequence[StreamEvent]) -> None:
    """Store events, of several runs at once; those of a run deleted meanwhile are dropped."""
    if not is_sqlite(connection):
        _append_on_postgresql(connection, events)
        return
    by_run: dict[str, list[StreamEvent]] = {}
    for event in events:
        by_run.setdefault(event.run_id, []).append(event)
    for run_id, of_run in by_run.items():
        if run_exists.first(connection, {"run_id": run_id}) is not None:
            for start in range(0, len(of_run), ROWS_PER_STATEMENT):
                rows = of_run[start : start + ROWS_PER_STATEMENT]
                placeholders = ", ".join(["(?, ?, ?, ?)"] * len(rows))
                values = [value for row in rows for value in (run_id, row.seq, row.event, row.data)]
                driver_of(connection).execute(INSERT_EVENTS + placeholders, values)


def _append_on_postgresql(connection: Connection, events: Sequence[StreamEvent]) -> None:
    columns = {
        "run_ids": [event.run_id for event in events],
        "seqs": [event.seq for event in events],
        "events": [event.event for event in events],
        "data": [event.data for event in events],
    }
    execute_on_postgresql(connection, APPEND_ON_POSTGRESQL, {**columns, "now": to_micros(utc_now())})
    notify(connection, *{f"{RUN_TOPIC}{event.run_id}": None for event in events})


def append_end(connection: Connection, run_id: str, status: str, body: bytes | None, ended: Any) -> None:
    """Store the end of a run for the processes that wait for it, with its JSON body if one needs it."""
    needs_body = bool(ended.watch & Watch.RESULT)
    head: JsonObject = {"status": status, "metadata": from_json(ended.metadata), "created_at": ended.created_at}
    head |= {"is_deleted": body is None, "has_body": needs_body, "is_stored": bool(ended.watch & Watch.STORED)}
    data = to_json(head).encode() + b"\n" + ((body or b"") if needs_body else b"")
    parameters = {"run_id": run_id, "seq": END_SEQ, "event": END_EVENT, "data": data, "now": to_micros(utc_now())}
    insert_end.run(connection, parameters)


def parse_end(data: bytes) -> tuple[JsonObject, bytes]:
    """Return the head of a stored end {status, metadata, created_at, is_deleted, has_body, is_stored}, and the body."""
    head, _, body = data.partition(b"\n")
    parsed: JsonObject = from_json(head.decode())
    return parsed, body


def read_end(connection: Connection, run_id: str) -> bytes | None:
    """Return the stored end of a run; None without one."""
    row = end_of_run.first(connection, {"run_id": run_id})
    return None if row is None else bytes(row.data)


def notice_key(thread_id: str) -> str:
    """Return the key under which the events of a thread itself are stored among those of runs."""
    return f"thread:{thread_id}"


def insert_follow(connection: Connection, thread_id: str, until: int) -> None:
    """Store that a process follows a thread that does not exist yet; the thread's creation reads it."""
    row = {"run_id": f"{FOLLOW_PREFIX}{thread_id}", "seq": until, "event": "followed", "data": b""}
    insert_end.run(connection, {**row, "now": to_micros(utc_now())})


def last_event_key(thread_id: str) -> str:
    """Return the key under which the ends of rolled-back runs are stored among the events of runs."""
    return f"rolled back:{thread_id}"


def read_rolled_back_ends(connection: Connection, thread_id: str, after: int) -> list[StreamEvent]:
    """Return the events of the ends of a thread's rolled-back runs after a number, as far as they are stored."""
    rows = events_after.all(connection, {"run_id": last_event_key(thread_id), "after": after, "most": 100})
    return [
        StreamEvent(row.seq, channel_method(row.event), bytes(row.data), str(row.seq), channel=row.event)
        for row in rows
    ]


def insert_notice(connection: Connection, thread_id: str, data: Callable[[], bytes]) -> None:
    """Store a state that a client wrote, if another process follows the thread."""
    now = to_micros(utc_now())
    if is_thread_followed.first(connection, {"thread_id": thread_id, "now": now}) is not None:
        key = notice_key(thread_id)
        row = {"run_id": key, "seq": now, "event": "state_update", "data": data(), "now": now}
        insert_end.run(connection, row)
        notify(connection, f"{RUN_TOPIC}{key}")


def find_asking_run(connection: Connection, thread_id: str, interrupt_id: str) -> str | None:
    """Return the id of the thread's running run that has published this interrupt."""
    for row in requests_of_running.all(connection, {"thread_id": thread_id}):
        if from_json(bytes(row.data).decode())["params"]["data"]["interrupt_id"] == interrupt_id:
            return str(row.run_id)
    return None


def has_asked(connection: Connection, thread_id: str) -> bool:
    """Return whether the thread's running run has published an interrupt."""
    return requests_of_running.first(connection, {"thread_id": thread_id}) is not None


def delete_stored_contents(connection: Connection, thread_id: str) -> None:
    """Delete the checkpoints and tool results of a thread that are in the same database."""
    if not is_sqlite(connection):
        execute_on_postgresql(
            connection, DELETE_CONTENTS, {"thread_id": thread_id, "prefix": tool_results_prefix(thread_id)}
        )


def delete_run_events(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Delete the events of the runs that match; SQLite deletes them with the runs."""
    if not is_sqlite(connection):
        found = select(runs.c.run_id).where(condition)
        connection.execute(delete(run_events).where(run_events.c.run_id.in_(found)))


def read_events(
    connection: Connection, run_id: str, after: int, limit: int, id_prefix: str | None = None
) -> list[StreamEvent]:
    """Return the events of a run after a sequence number, in order."""
    rows = events_after.all(connection, {"run_id": run_id, "after": after, "most": limit})
    return [StreamEvent(row.seq, row.event, row.data, event_id(id_prefix, row.seq), run_id) for row in rows]


def event_id(prefix: str | None, seq: int) -> str | None:
    """Return the SSE id `<prefix>-<seq>`: unique in its run, and sortable as text; None without a prefix."""
    return None if prefix is None else f"{prefix}-{seq:010d}"


# A crashed process may have sent events that it had not stored yet, so its threads continue with numbers from a new
# block. Fewer events than this can be unstored at a time.
SEQS_PER_RESTART = 1_000_000
# The events of a thread that are stored at most, to be replayed for later subscribers.
MAX_STORED_EVENTS = 10_000
MAX_STORED_BYTES = 64 * 1024 * 1024


EVENT_COLUMNS = [column.name for column in thread_events.c]
CUSTOM_PREFIX = "custom:"
THREAD_ID: BindParameter[str] = bindparam("thread_id", type_=Text)
LAST_SEQ: BindParameter[int] = bindparam("last_seq", type_=BigInteger)
insert_event = Statement(
    insert(thread_events)
    .from_select(
        EVENT_COLUMNS,
        select(*(bindparam(column.name, type_=column.type) for column in thread_events.c)).where(
            exists().where(runs.c.run_id == RUN_ID)
        ),
    )
    .on_conflict_do_nothing()
)
_insert_sequence = insert(thread_sequences).from_select(
    ["thread_id", "last_seq"],
    select(THREAD_ID, cast(LAST_SEQ, Integer)).where(exists().where(threads.c.thread_id == THREAD_ID)),
)
upsert_last_seq = Statement(
    _insert_sequence.on_conflict_do_update(
        index_elements=["thread_id"],
        set_={"last_seq": _insert_sequence.excluded.last_seq},
        where=_insert_sequence.excluded.last_seq > thread_sequences.c.last_seq,
    )
)
select_last_seq = Statement(select(thread_sequences.c.last_seq).where(thread_sequences.c.thread_id == THREAD_ID))
_NEWEST_FIRST = thread_events.c.seq.desc()
_ranked_events = (
    select(
        thread_events.c.seq,
        func.row_number().over(order_by=_NEWEST_FIRST).label("place"),
        func.sum(func.length(thread_events.c.data)).over(order_by=_NEWEST_FIRST).label("size"),
    )
    .where(thread_events.c.thread_id == THREAD_ID)
    .subquery()
)
newest_excess = Statement(
    select(func.max(_ranked_events.c.seq).label("seq")).where(
        or_(_ranked_events.c.place > bindparam("max_events"), _ranked_events.c.size > bindparam("max_bytes"))
    )
)
delete_events = Statement(
    delete(thread_events).where(thread_events.c.thread_id == THREAD_ID, thread_events.c.seq <= bindparam("upto"))
)


def append_thread_events(connection: Connection, events: Sequence[tuple[str, int, StreamEvent]]) -> None:
    """Store events of threads (id, attempt of the run, event), and the last numbers.

    Those of a run deleted meanwhile are dropped.
    """
    if is_sqlite(connection):
        rows = [
            (thread_id, event.seq, event.run_id, event.channel, to_json(event.namespace), int(event.detail), event.data)
            for thread_id, _, event in events
        ]
        insert_event.run_many(connection, [dict(zip(EVENT_COLUMNS, row, strict=True)) for row in rows])
    else:
        _append_to_threads_on_postgresql(connection, events)
    last = {thread_id: event.seq for thread_id, _, event in events}
    upsert_last_seq.run_many(connection, [{"thread_id": thread_id, "last_seq": seq} for thread_id, seq in last.items()])


def append_last_event(connection: Connection, thread_id: str, event: StreamEvent, *, is_rolled_back: bool) -> None:
    """Store the event of a run's end in the transaction that ends the run.

    The events of a run that is rolled back are deleted with it; its end is stored for other processes only.
    """
    if is_rolled_back and not is_sqlite(connection):
        notice = {"run_id": last_event_key(thread_id), "seq": event.seq, "event": event.channel, "data": event.data}
        insert_end.run(connection, {**notice, "now": to_micros(utc_now())})
    row = (thread_id, event.seq, event.run_id, event.channel, to_json(event.namespace), int(event.detail), event.data)
    insert_event.run(connection, dict(zip(EVENT_COLUMNS, row, strict=True)))
    upsert_last_seq.run(connection, {"thread_id": thread_id, "last_seq": event.seq})
    notify(connection, f"{PROTOCOL_TOPIC}{thread_id}")


def _append_to_threads_on_postgresql(connection: Connection, events: Sequence[tuple[str, int, StreamEvent]]) -> None:
    columns = {
        "thread_ids": [thread_id for thread_id, _, _ in events],
        "attempts": [attempt for _, attempt, _ in events],
        "seqs": [event.seq for _, _, event in events],
        "run_ids": [event.run_id for _, _, event in events],
        "channels": [event.channel for _, _, event in events],
        "namespaces": [to_json(event.namespace) for _, _, event in events],
        "details": [int(event.detail) for _, _, event in events],
        "data": [event.data for _, _, event in events],
    }
    execute_on_postgresql(connection, APPEND_TO_THREADS, columns)
    notify(connection, *{f"{PROTOCOL_TOPIC}{thread_id}": None for thread_id, _, _ in events})


def read_last_seq(connection: Connection, thread_id: str) -> int:
    """Return the last event number of a thread; 0 without events."""
    row = select_last_seq.first(connection, {"thread_id": thread_id})
    return 0 if row is None else int(row.last_seq)


def read_thread_events(
    connection: Connection, thread_id: str, after: int, limit: int, channels: Collection[str] | None
) -> list[StreamEvent]:
    """Return a thread's events on these channels (None: all) after a number, in order."""
    query = _select_events(thread_id).where(thread_events.c.seq > after, _on_channels(channels))
    query = query.order_by(thread_events.c.seq).limit(limit)
    return [_event_from_row(*row) for row in connection.execute(query)]


def read_lifecycle(connection: Connection, thread_id: str, run_id: str | None) -> list[StreamEvent]:
    """Return the lifecycle events of a run; of the thread's last run if `run_id` is None."""
    query = _select_events(thread_id).where(thread_events.c.channel == "lifecycle").order_by(thread_events.c.seq)
    if run_id is None:
        newest = select(thread_events.c.run_id).where(thread_events.c.thread_id == thread_id)
        query = query.where(
            thread_events.c.run_id == newest.order_by(thread_events.c.seq.desc()).limit(1).scalar_subquery()
        )
    else:
        query = query.where(thread_events.c.run_id == run_id)
    return [_event_from_row(*row) for row in connection.execute(query)]


def prune_thread_events(
    connection: Connection, thread_id: str, max_events: int = MAX_STORED_EVENTS, max_bytes: int = MAX_STORED_BYTES
) -> None:
    """Delete all but a thread's newest events, at most `max_events` and `max_bytes` in total."""
    row = newest_excess.first(connection, {"thread_id": thread_id, "max_events": max_events, "max_bytes": max_bytes})
    if row.seq is not None:
        delete_events.run(connection, {"thread_id": thread_id, "upto": row.seq})


def start_new_blocks(connection: Connection) -> None:
    """Skip the numbers that an earlier process may have used for the runs that it was executing."""
    started = select(runs.c.thread_id.distinct(), cast(SEQS_PER_RESTART, Integer)).where(
        runs.c.status.in_(("pending", "running")), runs.c.attempt > 0
    )
    statement = insert(thread_sequences).from_select(["thread_id", "last_seq"], started)
    following = (thread_sequences.c.last_seq // SEQS_PER_RESTART + 1) * SEQS_PER_RESTART
    connection.execute(statement.on_conflict_do_update(index_elements=["thread_id"], set_={"last_seq": following}))


def _select_events(thread_id: str) -> Select[Any]:
    return select(*(thread_events.c[name] for name in EVENT_COLUMNS)).where(thread_events.c.thread_id == thread_id)


def _on_channels(channels: Collection[str] | None) -> ColumnElement[bool]:
    if channels is None:
        return true()
    condition = thread_events.c.channel.in_(channels)
    return or_(condition, thread_events.c.channel.like(f"{CUSTOM_PREFIX}%")) if "custom" in channels else condition


def _event_from_row(
    _thread_id: str, seq: int, run_id: str, channel: str, namespace: str, detail: int, data: bytes
) -> StreamEvent:
    steps = tuple(from_json(namespace))
    return StreamEvent(seq, channel_method(channel), data, str(seq), run_id, channel, steps, bool(detail))


def channel_method(channel: str) -> str:
    """Return the protocol method of a channel's events."""
    if channel == "input":
        return "input.requested"
    return "custom" if channel.startswith(CUSTOM_PREFIX) else channel
