"""Open the databases and keep threads, assistants and runs in them."""
