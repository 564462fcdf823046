"""Hold MCP on both sides: the servers we ship and the connections to every server."""
