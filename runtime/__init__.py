"""Serve graphs: persistence, runs and event streams."""
