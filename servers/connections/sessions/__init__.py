"""Carry bytes to and from one MCP server: child processes, streams, HTTP, and what goes wrong with them."""
