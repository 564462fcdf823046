"""Run jobs at HTTP services that the operator allows, and see how they are (C-04)."""
