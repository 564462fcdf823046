"""Make a video script of a page: fetch it, tell its article from the rest, write, validate (A-04)."""
