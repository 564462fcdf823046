"""Find the threads with a rare label on SQLite, without reading all threads.

A label is a key of a thread's metadata with its value, or with one of the values in its list. PostgreSQL has an index
on the metadata themselves. Threads of temporary runs have no labels, because most are deleted within seconds.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, Select, and_, bindparam, delete, false, func, or_, select, union_all
from sqlalchemy.dialects.postgresql import insert  # with ON CONFLICT, also for SQLite

from toolweave.runtime.codec import from_json
from toolweave.runtime.persistence.database import is_sqlite
from toolweave.runtime.persistence.run_rows import ACTIVE
from toolweave.runtime.persistence.schema import Statement, runs, thread_labels
from toolweave.runtime.persistence.search import Label, labels_of

# A label with more threads is common: the newest of them are soon found in the order of the threads.
MAX_CANDIDATES = 1_000
BY_LABEL = (thread_labels.c.key == bindparam("of_key"), thread_labels.c.value == bindparam("of_value"))
insert_label = Statement(insert(thread_labels).on_conflict_do_nothing(), list(thread_labels.c.keys()))
delete_label = Statement(
    delete(thread_labels).where(
        *BY_LABEL,
        thread_labels.c.created_at == bindparam("of_time"),
        thread_labels.c.thread_id == bindparam("of_thread"),
    )
)
first_of_label = select(thread_labels.c.thread_id).where(*BY_LABEL).limit(MAX_CANDIDATES + 1)
count_of_label = Statement(select(func.count().label("number")).select_from(first_of_label.subquery()))


def store_labels(
    connection: Connection, thread_id: str, created_at: int, metadata: str | None, previous: str | None = None
) -> None:
    """Replace the labels of a thread's previous metadata by those of the new ones; None has no labels."""
    if not is_sqlite(connection):
        return
    new, old = (set() if text is None else labels_of(from_json(text)) for text in (metadata, previous))
    columns = {"created_at": created_at, "thread_id": thread_id}
    insert_label.run_many(connection, [{"key": key, "value": value, **columns} for key, value in new - old])
    names = {"of_time": created_at, "of_thread": thread_id}
    delete_label.run_many(connection, [{"of_key": key, "of_value": value, **names} for key, value in old - new])


def find_candidates(connection: Connection, groups: Sequence[Sequence[Label]]) -> Select[tuple[str]] | None:
    """Return the query for a few threads that include all which have a label of each group; None if all are common."""
    if not is_sqlite(connection):
        return None
    fewest, rarest = MAX_CANDIDATES, None
    for group in groups:
        number = sum(
            count_of_label.first(connection, {"of_key": key, "of_value": value}).number for key, value in group
        )
        if number <= fewest:
            fewest, rarest = number, group
    if rarest is None:
        return None
    labelled = select(thread_labels.c.thread_id).where(
        or_(false(), *(and_(thread_labels.c.key == key, thread_labels.c.value == value) for key, value in rarest))
    )
    temporary = select(runs.c.thread_id).where(ACTIVE, runs.c.temporary == 1)
    return select(union_all(labelled, temporary).subquery().c.thread_id)
