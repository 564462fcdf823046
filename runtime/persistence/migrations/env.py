"""Run migrations on the connection that upgrade_schema gives; its caller owns the transaction."""

from alembic import context

from toolweave.runtime.persistence.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
