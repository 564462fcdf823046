"""Keep the registered ToolConfigs: what stands for a server where a team has an HTTP API and none over MCP (W-01)."""
