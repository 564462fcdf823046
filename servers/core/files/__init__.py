"""Read and search files within the folders that the operator allows (C-05)."""
