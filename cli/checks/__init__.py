"""Check what a server needs, one subject per file; every check says what to do."""
