"""Open a server's SQLAlchemy database, which other processes may share, and describe its failures."""
