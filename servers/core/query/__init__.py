"""Read the tables of a database that the operator allows, and nothing else (C-03, D-12)."""
