"""Fetch a page: by plain HTTP, or from what an agent's tools returned."""
