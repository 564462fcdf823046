"""Check what goes to a server and what it answers against the schemas it lists (T-10)."""
