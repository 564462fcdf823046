"""Open the databases and store threads, assistants, runs and checkpoints in them."""
