"""Run explicit LangGraph state graphs whose tools come from MCP servers."""

__version__ = "0.1.0"
