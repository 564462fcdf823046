"""Keep the events of the newer protocol, numbered per thread.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the events, and the last number given out on each thread: it must outlive the events."""
    op.create_table(
        "thread_events",
        sa.Column("thread_id", sa.Text, sa.ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("detail", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_thread_events_run_id", "thread_events", ["run_id"])
    op.create_table(
        "thread_sequences",
        sa.Column("thread_id", sa.Text, sa.ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
    )
