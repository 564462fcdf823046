"""Serve the MCP server `core`: query a database, run jobs, read and search files (C-01, C-02)."""
