"""Store the checkpoints of graphs, on SQLite and on PostgreSQL."""
