"""Authenticate callers and authorize what they ask for, by the `langgraph_sdk.Auth` that langgraph.json names."""
