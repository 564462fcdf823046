"""Describe the database of registered tools, and how a new one is made."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.servers.databases.kind import DatabaseKind

VERSION = 1

METADATA = sa.MetaData()

# In the order of the code points, as everywhere in SQLite: a PostgreSQL may sort by the rules of a language.
_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

# What is searched stands before the documents: a search need not read over these.
TOOLS = sa.Table(
    "registered_tools",
    METADATA,
    sa.Column("tool_id", sa.Text, primary_key=True),
    sa.Column("folded_id", _ID, nullable=False, unique=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text, nullable=False),
    sa.Column("name_text", sa.Text, nullable=False),
    sa.Column("search_text", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)

# One row. Every write takes the next number first: none comes twice for an id, and writers come one by one.
REVISIONS = sa.Table("tool_registry_revision", METADATA, sa.Column("last", sa.BigInteger, nullable=False))

SCHEMA_VERSION = sa.Table("tool_registry_schema_version", METADATA, sa.Column("version", sa.Integer, nullable=False))


async def create(connection: AsyncConnection) -> None:
    """Create the tables."""
    await connection.run_sync(METADATA.create_all)
    await connection.execute(REVISIONS.insert().values(last=0))


TOOLS_DATABASE = DatabaseKind(
    name="tool registry",
    setting="TOOLWEAVE_TOOLS_DATABASE_URL",
    example="sqlite:////data/tools.db",
    version=VERSION,
    version_table=SCHEMA_VERSION,
    create=create,
    synchronous="FULL",
)
