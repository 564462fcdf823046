"""Serve the LangGraph-compatible API for any langgraph.json; it depends on no graph of ours."""
