"""Tell other servers that a run has ended: once it is written, until they have heard it (langgraph_api.md 5.11)."""
