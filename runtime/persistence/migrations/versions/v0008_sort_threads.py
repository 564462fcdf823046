"""Add indexes for sorting threads by each field, and for the newest threads with a label.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic.operations import Operations

from toolweave.runtime.persistence.schema import CREATE_ON_SQLITE

revision = "0008"
down_revision = "0007"
ANY_STATUS = sa.text("status > ''")


def upgrade(op: Operations) -> None:
    """Index the threads; on SQLite, change the time of the labels to the time of the thread's last change."""
    op.create_index("ix_threads_state_updated_at", "threads", ["state_updated_at"], if_not_exists=True)
    op.create_index(
        "ix_threads_status",
        "threads",
        ["status", "thread_id"],
        if_not_exists=True,
        sqlite_where=ANY_STATUS,
        postgresql_where=ANY_STATUS,
    )
    if op.get_bind().dialect.name != "sqlite":
        return
    op.create_index("ix_thread_labels_thread", "thread_labels", ["thread_id", "key", "value"])
    op.execute("DELETE FROM thread_labels WHERE thread_id NOT IN (SELECT thread_id FROM threads)")
    op.execute(
        "UPDATE OR REPLACE thread_labels SET created_at ="
        " (SELECT updated_at FROM threads WHERE threads.thread_id = thread_labels.thread_id)"
    )
    for statement in CREATE_ON_SQLITE:
        op.execute(statement)
