"""Hold one supervised, persistent session per configured MCP server."""
