"""Give threads a time to live, and add crons and webhook deliveries.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what keeps threads from staying for ever, runs at set times and deliveries that survive a restart."""
    _let_threads_expire()
    _create_crons()
    _create_webhook_deliveries()


def _let_threads_expire() -> None:
    op.add_column("threads", sa.Column("ttl_strategy", sa.Text))
    op.add_column("threads", sa.Column("ttl_minutes", sa.Float))
    op.add_column("threads", sa.Column("expires_at", sa.BigInteger))
    op.create_index("ix_threads_expires_at", "threads", ["expires_at"])


def _create_crons() -> None:
    op.create_table(
        "crons",
        sa.Column("cron_id", sa.Text, primary_key=True),
        sa.Column(
            "assistant_id", sa.Text, sa.ForeignKey("assistants.assistant_id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("thread_id", sa.Text, sa.ForeignKey("threads.thread_id", ondelete="CASCADE")),
        sa.Column("user_id", sa.Text),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text),
        sa.Column("end_time", sa.BigInteger),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("on_run_completed", sa.Text),
        sa.Column("enabled", sa.Integer, nullable=False),
        sa.Column("next_run_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_crons_next_run_at", "crons", ["next_run_at"])


def _create_webhook_deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("delivery_id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger),
        sa.Column("last_error", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("given_up_at", sa.BigInteger),
    )
    op.create_index("ix_webhook_deliveries_next_attempt_at", "webhook_deliveries", ["next_attempt_at"])
