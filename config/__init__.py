"""Read settings, mcp.jsonc and logging configuration; the only reader of the environment."""
