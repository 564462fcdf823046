"""Serve the LangGraph-compatible API for any langgraph.json; knows no graph of ours."""
