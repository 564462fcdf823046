"""Serve tools for common work over MCP: query a database, run jobs, read and search files (C-01, C-02)."""
