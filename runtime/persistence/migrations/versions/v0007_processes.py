"""Add what several processes need that share a PostgreSQL database, priorities, and labels of threads (S-06, S-08).

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic.operations import Operations

from toolweave.runtime.persistence.search import store_labels

revision = "0007"
down_revision = "0006"
EXPIRING = sa.text("expires_at IS NOT NULL")
STOPPED = sa.text("status = 'interrupted' OR status = 'error'")
PROMOTED = sa.text("status = 'pending' AND promoted = 1")


def upgrade(op: Operations) -> None:
    """Add columns with defaults, so that older processes can still insert rows, and the table of processes."""
    for column in ("claimed_by", "fairness_group"):
        op.add_column("threads", sa.Column(column, sa.Text))
    op.add_column("threads", sa.Column("followed_until", sa.BigInteger))
    op.add_column("threads", sa.Column("priority", sa.Integer))
    op.add_column("runs", sa.Column("urgency", sa.BigInteger, nullable=False, server_default="0"))
    for column in ("promoted", "watch"):
        op.add_column("runs", sa.Column(column, sa.Integer, nullable=False, server_default="0"))
    for column in ("process_id", "cancel_reason"):
        op.add_column("runs", sa.Column(column, sa.Text))
    op.add_column("run_events", sa.Column("created_at", sa.BigInteger))
    op.create_table(
        "processes",
        sa.Column("process_id", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger, nullable=False),
        sa.Column("lease", sa.BigInteger, nullable=False),
    )
    op.create_table("schema_compatibility", sa.Column("oldest_code", sa.Text, primary_key=True))
    op.execute("INSERT INTO schema_compatibility (oldest_code) VALUES ('0007')")
    op.create_index("ix_runs_promoted", "runs", ["urgency", "seq"], sqlite_where=PROMOTED, postgresql_where=PROMOTED)
    _index_threads(op)


def _index_threads(op: Operations) -> None:
    op.drop_index("ix_threads_expires_at", "threads")
    op.create_index("ix_threads_expires_at", "threads", ["expires_at"], sqlite_where=EXPIRING)
    op.create_index("ix_threads_stopped", "threads", ["status", "updated_at"], sqlite_where=STOPPED)
    op.create_table(
        "thread_labels",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, primary_key=True),
        sa.Column("thread_id", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    for row in connection.execute(sa.text("SELECT thread_id, created_at, metadata FROM threads")).all():
        store_labels(connection, *row)
