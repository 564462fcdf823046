"""Keep on whose behalf a cron fires.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add what is known of the user beside the id, which alone does not tell a run's nodes who it is for."""
    op.add_column("crons", sa.Column("user_members", sa.Text))
