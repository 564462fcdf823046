"""The local studio: a page that is a client of the public API, and its server side."""
