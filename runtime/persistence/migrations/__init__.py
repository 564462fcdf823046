"""Schema migrations of app.db; alembic loads them by path."""
