"""Install the MCP servers of other projects that mcp.servers.jsonc has entries for (C-09, D-13)."""
