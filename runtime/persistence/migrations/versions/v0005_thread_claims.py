"""Add the claim of the request or sweep that writes a thread's checkpoints.

Revision ID: 0005
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0005"
down_revision = "0004"
CLAIMED = sa.text("claim IS NOT NULL")


def upgrade(op: Operations) -> None:
    """Add the token of the claim (R-01)."""
    op.add_column("threads", sa.Column("claim", sa.Text))
    op.create_index("ix_threads_claimed", "threads", ["thread_id"], sqlite_where=CLAIMED, postgresql_where=CLAIMED)
