"""Serve the newer protocol: commands, and a thread's events over SSE and WebSocket (langgraph_api.md section 7)."""
