"""Serve the MCP server `todo`, which stores todos in a database (T-13)."""

from toolweave.extras import require_extra

require_extra("server")
