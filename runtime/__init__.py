"""Serve graphs: persistence, runs and event streams."""

from toolweave.extras import require_extra

require_extra("server")
