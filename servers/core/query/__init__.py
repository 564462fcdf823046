"""Read only those tables of a database that the operator allows (C-03, D-12)."""
