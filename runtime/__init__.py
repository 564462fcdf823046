"""Give served graphs what they need: persistence, runs and event streams."""
