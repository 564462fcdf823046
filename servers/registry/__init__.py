"""Store registered ToolConfigs, which make an HTTP API usable as tools without an MCP server (W-01)."""
