"""Handlers of the endpoints, one module per resource; a decorator describes each endpoint."""
