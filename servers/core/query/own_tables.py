"""Know the tables that no setting opens: Toolweave's own, and those in which databases describe themselves (C-03)."""

from toolweave.config.query_tables import AllowedTable

_OWN = frozenset(
    {
        "alembic_version",
        # the LangGraph API's
        "assistants",
        "assistant_versions",
        "checkpoints",
        "checkpoint_blobs",
        "checkpoint_migrations",
        "checkpoint_writes",
        "crons",
        "kept_writes",
        "run_events",
        "runs",
        "store",
        "store_migrations",
        "store_vectors",
        "thread_events",
        "thread_sequences",
        "threads",
        "vector_migrations",
        "webhook_deliveries",
        "writes",
        # the todo server's, beside the todos
        "todo_idempotent_results",
        "todo_schema_version",
        # the registry's
        "registered_tools",
        "tool_registry_revision",
        "tool_registry_schema_version",
    }
)
_PREFIXES = ("sqlite_", "pg_", "pragma_", "todos_fts")
_SCHEMAS = frozenset({"information_schema", "mysql", "performance_schema", "sys", "temp"})


def is_closed(table: AllowedTable) -> bool:
    """Tell whether a table stays closed to queries, whoever lists it."""
    name, schema = table.name.casefold(), (table.schema or "").casefold()
    return name in _OWN or name.startswith(_PREFIXES) or schema in _SCHEMAS or schema.startswith("pg_")
