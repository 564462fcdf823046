"""Open a server's SQLAlchemy database, which other processes may share, and describe its failures."""

from toolweave.extras import require_extra

require_extra("server")
