"""Contain both sides of MCP: the servers that we ship, and the client's connections to every server."""
