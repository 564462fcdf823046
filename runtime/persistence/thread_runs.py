"""Find the runs of a thread whose events are kept, in the order in which they happened."""

from sqlalchemy import Connection, func, select

from toolweave.runtime.models import TERMINAL, Run
from toolweave.runtime.persistence.json_text import to_micros
from toolweave.runtime.persistence.run_rows import run_from
from toolweave.runtime.persistence.tables import runs


def resumable_runs(connection: Connection, thread_id: str, *, from_created_at: int, from_moment: int) -> list[Run]:
    """Give the run that was created at `from_created_at` and those that came after it, in microseconds.

    One run at a time executes on a thread: the order of their ends is that of their events. When there is no such run,
    or no more, it is those that have not ended by `from_moment`.
    """
    ended = runs.c.status.in_(sorted(TERMINAL))
    query = (
        select(runs)
        .where(runs.c.thread_id == thread_id, func.json_extract(runs.c.kwargs, "$.resumable") == 1)
        .order_by(~ended, runs.c.updated_at, runs.c.seq)
    )
    found = [run_from(row) for row in connection.execute(query)]
    for index, run in enumerate(found):
        if to_micros(run.created_at) == from_created_at:
            return found[index:]
    return [run for run in found if run.status not in TERMINAL or to_micros(run.updated_at) > from_moment]
