"""Serve the MCP server `todo`, which stores todos in a database (T-13)."""
