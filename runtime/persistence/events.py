"""Store the events of resumable runs and read them back (langgraph_api.md 6.2)."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import BindParameter, Connection, bindparam, select

from toolweave.runtime.persistence.compiled import Compiled
from toolweave.runtime.persistence.run_rows import run_by_id
from toolweave.runtime.persistence.sqlite import driver_of
from toolweave.runtime.persistence.tables import run_events


class StoredEvent(NamedTuple):
    """One event of a run; `seq` counts within the run."""

    run_id: str
    seq: int
    event: str
    data: bytes


RUN_ID: BindParameter[str] = bindparam("run_id")

# One statement for many rows: between statements the driver gives way to the event loop and has to wait for it again.
INSERT_EVENTS = "INSERT OR IGNORE INTO run_events (run_id, seq, event, data) VALUES "
ROWS_PER_STATEMENT = 250
events_after = Compiled(
    select(run_events)
    .where(run_events.c.run_id == RUN_ID, run_events.c.seq > bindparam("after"))
    .order_by(run_events.c.seq)
    .limit(bindparam("most"))
)


def append_events(connection: Connection, events: Sequence[StoredEvent]) -> None:
    """Store events, of several runs at once; those of a run deleted meanwhile are dropped."""
    by_run: dict[str, list[StoredEvent]] = {}
    for event in events:
        by_run.setdefault(event.run_id, []).append(event)
    for run_id, of_run in by_run.items():
        if run_by_id.first(connection, {"of_run": run_id}) is not None:
            for start in range(0, len(of_run), ROWS_PER_STATEMENT):
                rows = of_run[start : start + ROWS_PER_STATEMENT]
                places = ", ".join(["(?, ?, ?, ?)"] * len(rows))
                driver_of(connection).execute(INSERT_EVENTS + places, [value for row in rows for value in row])


def read_events(connection: Connection, run_id: str, after: int, limit: int) -> list[StoredEvent]:
    """Read the events of a run that follow a sequence number, in their order."""
    rows = events_after.all(connection, {"run_id": run_id, "after": after, "most": limit})
    return [StoredEvent(*row) for row in rows]
