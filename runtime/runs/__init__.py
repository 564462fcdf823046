"""Create, execute, stream, cancel and finalise runs."""
