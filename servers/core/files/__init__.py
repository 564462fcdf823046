"""Read and search files within the folders that the operator names (C-05)."""
