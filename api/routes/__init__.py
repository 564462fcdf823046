"""Serve Toolweave's own routes, which are clients of the LangGraph API."""
