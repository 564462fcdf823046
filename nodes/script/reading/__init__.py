"""Read a page: its bytes become an article."""
