"""Create the first tables.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ACTIVE = sa.text("status IN ('pending', 'running')")
RUNNING = sa.text("status = 'running'")


def upgrade() -> None:
    """Go from nothing to assistants, threads, runs and their events."""
    _create_assistants()
    _create_threads()
    _create_runs()


def _create_assistants() -> None:
    op.create_table(
        "assistants",
        sa.Column("assistant_id", sa.Text, primary_key=True),
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_assistants_graph_id", "assistants", ["graph_id"])
    op.create_table(
        "assistant_versions",
        sa.Column(
            "assistant_id", sa.Text, sa.ForeignKey("assistants.assistant_id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )


def _create_threads() -> None:
    op.create_table(
        "threads",
        sa.Column("thread_id", sa.Text, primary_key=True),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("settled", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("state_values", sa.Text),
        sa.Column("interrupts", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("state_updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_threads_created_at", "threads", ["created_at"])
    op.create_index("ix_threads_updated_at", "threads", ["updated_at"])


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False, unique=True),
        sa.Column("thread_id", sa.Text, sa.ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
        sa.Column("assistant_id", sa.Text, nullable=False),
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("kwargs", sa.Text, nullable=False),
        sa.Column("multitask_strategy", sa.Text, nullable=False),
        sa.Column("temporary", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("cancel", sa.Text),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_runs_thread", "runs", ["thread_id", "seq"])
    op.create_index("ix_runs_active", "runs", ["thread_id", "seq"], sqlite_where=ACTIVE, postgresql_where=ACTIVE)
    op.create_index(
        "ux_runs_one_running", "runs", ["thread_id"], unique=True, sqlite_where=RUNNING, postgresql_where=RUNNING
    )
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
