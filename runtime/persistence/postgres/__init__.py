"""PostgreSQL for several processes: our tables, checkpoints and store in one database (S-06)."""
