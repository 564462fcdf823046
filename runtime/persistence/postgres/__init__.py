"""PostgreSQL for several processes: our tables, checkpoints and store in one database (S-06)."""

from toolweave.extras import require_extra

require_extra("postgres")
