"""Speak with one MCP server: the session, its link to owner and callers, its transports, what can go wrong."""
