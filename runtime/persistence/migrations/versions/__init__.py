"""Hold one file per schema version, oldest first; never change one that was released."""
