"""Log, replay and frame the events of a run."""
