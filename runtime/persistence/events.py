"""Store the events of resumable runs and read them back (langgraph_api.md 6.2)."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import BindParameter, Connection, LargeBinary, bindparam, exists, insert, select

from toolweave.runtime.persistence.compiled import Compiled
from toolweave.runtime.persistence.tables import run_events, runs


class StoredEvent(NamedTuple):
    """One event of a run; `seq` counts within the run."""

    run_id: str
    seq: int
    event: str
    data: bytes


RUN_ID: BindParameter[str] = bindparam("run_id")

insert_event = Compiled(
    insert(run_events)
    .prefix_with("OR IGNORE", dialect="sqlite")
    .from_select(
        ["run_id", "seq", "event", "data"],
        select(RUN_ID, bindparam("seq"), bindparam("event"), bindparam("data", type_=LargeBinary)).where(
            exists().where(runs.c.run_id == RUN_ID)
        ),
    )
)
events_after = Compiled(
    select(run_events)
    .where(run_events.c.run_id == RUN_ID, run_events.c.seq > bindparam("after"))
    .order_by(run_events.c.seq)
    .limit(bindparam("most"))
)


def append_events(connection: Connection, events: Sequence[StoredEvent]) -> None:
    """Store events, of several runs at once; those of a run deleted meanwhile are dropped."""
    insert_event.run_many(connection, [event._asdict() for event in events])


def read_events(connection: Connection, run_id: str, after: int, limit: int) -> list[StoredEvent]:
    """Read the events of a run that follow a sequence number, in their order."""
    rows = events_after.all(connection, {"run_id": run_id, "after": after, "most": limit})
    return [StoredEvent(*row) for row in rows]
