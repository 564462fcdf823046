"""Assistants as agents of the A2A protocol: messages are runs, a context is a thread, a task is what a run began."""
