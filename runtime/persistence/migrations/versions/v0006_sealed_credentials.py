"""Encrypt the credentials of callers, and remove them from the rows of ended runs (R-02).

Revision ID: 0006
"""

from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations

from toolweave.encryption import TextCipher
from toolweave.runtime.codec import from_json, to_json
from toolweave.runtime.persistence.run_rows import seal_credentials

revision = "0006"
down_revision = "0005"

USER = "langgraph_auth_user"
SHOWN = ("identity", "display_name", "is_authenticated", "permissions")

RUNS = sa.table(
    "runs", *(sa.column(name) for name in ("run_id", "status", "kwargs")), sa.column("sealed", sa.LargeBinary)
)
CRONS = sa.table("crons", sa.column("cron_id"), sa.column("user_members"), sa.column("sealed", sa.LargeBinary))


def upgrade(op: Operations) -> None:
    """Add the columns, and move credentials there that earlier versions stored as plain text."""
    for table in ("runs", "crons"):
        op.add_column(table, sa.Column("sealed", sa.LargeBinary))
    connection = op.get_bind()
    # SQLite then overwrites the replaced text in the file, too.
    connection.exec_driver_sql("PRAGMA secure_delete=ON").close()
    cipher = op.get_context().opts["cipher"]
    _seal_runs(connection, cipher)
    _seal_crons(connection, cipher)
    connection.exec_driver_sql("PRAGMA secure_delete=OFF").close()


def _seal_runs(connection: sa.Connection, cipher: TextCipher) -> None:
    with_user = sa.select(RUNS.c.run_id).where(RUNS.c.kwargs.contains(f'"{USER}"', autoescape=True))
    for run_id in connection.scalars(with_user).all():
        row = connection.execute(sa.select(RUNS).where(RUNS.c.run_id == run_id)).one()
        kwargs = from_json(row.kwargs)
        configurable = (kwargs.get("config") or {}).get("configurable") or {}
        if not isinstance(configurable.get(USER), dict):
            continue
        configurable[USER], sealed = _split(configurable[USER], cipher)
        kept = sealed if row.status in ("pending", "running") else None
        connection.execute(sa.update(RUNS).where(RUNS.c.run_id == run_id).values(kwargs=to_json(kwargs), sealed=kept))


def _seal_crons(connection: sa.Connection, cipher: TextCipher) -> None:
    for row in connection.execute(sa.select(CRONS).where(CRONS.c.user_members.is_not(None))).all():
        shown, sealed = _split(from_json(row.user_members), cipher)
        connection.execute(
            sa.update(CRONS).where(CRONS.c.cron_id == row.cron_id).values(user_members=to_json(shown), sealed=sealed)
        )


def _split(members: dict[str, Any], cipher: TextCipher) -> tuple[dict[str, Any], bytes | None]:
    """Return the public fields of a user, and the other fields encrypted."""
    shown = {name: value for name, value in members.items() if name in SHOWN}
    hidden = {name: value for name, value in members.items() if name not in SHOWN}
    return shown, seal_credentials(cipher, {"user": hidden} if hidden else {})
