"""Run Toolweave from a terminal."""
