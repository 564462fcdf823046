"""Run migrations on the connection of `upgrade_schema`, whose caller owns the transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
with context.begin_transaction():
    context.run_migrations()
