"""Serve todos over MCP, kept in a database."""
