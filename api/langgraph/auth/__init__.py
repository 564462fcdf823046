"""Authenticate and authorize requests with the `langgraph_sdk.Auth` object that langgraph.json names."""
