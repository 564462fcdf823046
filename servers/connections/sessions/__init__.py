"""Run MCP sessions: the session, its monitor, its transports, its errors."""
