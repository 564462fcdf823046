"""Serve our own routes, clients of the LangGraph API."""
