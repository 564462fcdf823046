"""Keep a server's data in a SQLAlchemy database: opened, shared with other processes, failing in words."""
