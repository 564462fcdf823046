"""A deterministic chat model made of rules, for a machine without an API key (O-01 to O-04)."""
