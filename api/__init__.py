"""Serve graphs over HTTP: the LangGraph-compatible API and our own routes."""
